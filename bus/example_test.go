package bus_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tokenbus/tokenbus/bus"
)

// A call that does not stream gives the whole answer at once.
func ExampleClient_Call() {
	url, stop := startBus()
	defer stop()
	ctx := context.Background()

	client, err := bus.Connect(ctx, bus.Config{Name: "my service", URLs: []string{url}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	answer, err := client.Call(ctx, bus.Request{
		API:  bus.Chat,
		Body: []byte(`{"model":"demo/small","messages":[{"role":"user","content":"Hello"}]}`),
	})
	if err != nil {
		fmt.Println(err) // a *bus.Error, with a reason and a hint
		return
	}
	fmt.Println(answer.Status, answer.Agent, string(answer.Body))
	// Output: 200 echo {"choices":[{"message":{"content":"Hello"}}]}
}

// A stream gives the engine's bytes as they come.
func ExampleClient_Start() {
	url, stop := startBus()
	defer stop()
	ctx := context.Background()

	client, err := bus.Connect(ctx, bus.Config{Name: "my service", URLs: []string{url}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	call, err := client.Start(ctx, bus.Request{
		API:  bus.Chat,
		Body: []byte(`{"model":"demo/small","stream":true,"max_tokens":3,"messages":[]}`),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.Close()
	for chunk, err := range call.Stream() {
		if err != nil {
			fmt.Println(err) // the answer is not complete
			return
		}
		fmt.Print(string(chunk))
	}
	fmt.Println(call.End().Bytes, "bytes")
	// Output:
	// data: token 1
	// data: token 2
	// data: token 3
	// data: [DONE]
	// 55 bytes
}

// A call ends with its context: the work is cancelled at the engine.
func ExampleClient_Start_cancel() {
	url, stop := startBus()
	defer stop()
	client, err := bus.Connect(context.Background(), bus.Config{Name: "my service", URLs: []string{url}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	call, err := client.Start(ctx, bus.Request{API: bus.Chat, Body: []byte(`{"model":"demo/small","stream":true,"messages":[]}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer call.Close()
	for chunk, err := range call.Stream() {
		if err != nil {
			fmt.Println(bus.AsError(err).Reason)
			return
		}
		fmt.Print(string(chunk))
		cancel()
	}
	// Output:
	// data: token 1
	// cancelled
}

// startBus runs an embedded NATS server, and on it what takes the place of a
// scheduler, an agent and an engine: it answers each request by itself.
func startBus() (url string, stop func()) {
	srv, err := bus.NewServer(bus.ServerConfig{Name: "example", Listen: "127.0.0.1:0"})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	link, err := bus.Dial(ctx, bus.Config{Name: "echo", InProcess: srv})
	if err != nil {
		panic(err)
	}
	responder, err := bus.NewResponder(link, "echo", bus.NewID(), bus.DefaultTimeout)
	if err != nil {
		panic(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = responder.Run(ctx)
	}()
	_, err = link.Subscribe(link.Data[0], bus.AllRequests, bus.SchedulerGroup, func(m *bus.Msg) {
		m.Header[bus.HeaderAttempt], m.Header[bus.HeaderReply] = []string{bus.NewID()}, []string{m.Reply}
		work, abort := context.WithCancelCause(ctx)
		if sender, ok := responder.Open(m, abort); ok {
			go echo(work, sender, m)
		}
	})
	if err != nil {
		panic(err)
	}
	ready, finish := context.WithTimeout(ctx, time.Second)
	defer finish()
	if err := link.Flush(ready); err != nil {
		panic(err)
	}
	return srv.URL(), func() {
		cancel()
		<-done
		link.Close()
		srv.Close()
	}
}

// echo answers one request. Without max_tokens its stream has no end.
func echo(ctx context.Context, sender *bus.Sender, m *bus.Msg) {
	defer sender.Close()
	head := bus.Header{bus.HeaderStatus: {"200"}, bus.HeaderAgent: {"echo"}}
	if bus.FirstHeader(m.Header, bus.HeaderStream) != "1" {
		_ = sender.Send(bus.KindWhole, head, []byte(`{"choices":[{"message":{"content":"Hello"}}]}`))
		return
	}
	limited := strings.Contains(string(m.Data), `"max_tokens":3`)
	kind := bus.KindHead
	for n := 1; n <= 3; n++ {
		if sender.Send(kind, head, fmt.Appendf(nil, "data: token %d\n", n)) != nil {
			return // nobody wants it any more
		}
		if kind, head = bus.KindData, nil; !limited {
			<-ctx.Done()
			return
		}
	}
	_ = sender.Send(bus.KindEnd, bus.Header{bus.HeaderBytes: {fmt.Sprint(sender.Bytes() + 13)}}, []byte("data: [DONE]\n"))
}
