// Command bench measures what Tokenbus costs, next to what a plain reverse proxy
// costs, in front of the same simulated engine:
//
//	go run ./integration/bench
//
// It builds the binary, starts every process on ports of its own, measures, prints
// two Markdown tables on standard output (bars and measurements; progress goes to
// standard error), and stops what it started. The targets are
//
//   - direct: the client calls the engine;
//   - proxy: httputil.ReverseProxy with FlushInterval −1 and Go's default transport,
//     as a process of its own;
//   - tuned proxy: the same with 1,024 idle connections a host, so that it never
//     has to dial, and with full duplex, so that it breaks no streams;
//   - tokenbus: bus, gateway, scheduler and agent, one process each, over TCP.
//
// The cases are the ones that [cases] lists. Each has a simulated engine and
// targets of its own. Within a round the targets take turns, so that what else the
// machine does hits all of them; the tables show medians over the rounds. Numbers
// of two runs are not comparable on a machine that is not idle; ratios within a run
// mostly are.
//
// # What counts
//
// CPU is user and system time of all processes of a target, without the engine and
// the client, read from the kernel's scheduler clock and not from ticks. Thread
// sleeps are context switches in which a thread had nothing more to do: what a hop
// costs on top of its work.
//
// The engine is told to make one token a step for all streams at the same moment.
// Three streams of the client go straight to the engine whatever the target is;
// the earliest arrival of a step at one of them is that step's reference time. The
// delay of a token is its arrival minus the reference time of its step, and what a
// target adds is its median delay minus that of the direct target, whose streams
// wait for their turn in the engine's burst, too. See [stepClock] for how a token
// finds its step.
//
// Time to first byte is taken at the first byte of the body, which carries the first
// token: the engine sends the head as soon as it has the request.
//
// The memory of quiet streams is the growth of anonymous memory (heap and stacks) of
// all processes of a target while 1,000 streams have had one token and wait for the
// next, divided by 1,000.
//
// A stream that breaks is counted and replaced. The plain proxy does lose some of those
// that start in a crowd: Go's server closes the body of a request when the head of the
// answer is sent, and a transport that has not yet seen the end of that body by then
// cuts its connection to the engine.
//
// # Tuning
//
// With -profile DIR only Tokenbus runs, and each chosen case leaves a profile of each
// role there, with the text of its top: of the CPU, for as long as -seconds less two, or
// of heap and goroutines in the case quiet.
//
//	go run ./integration/bench -case streams-64 -seconds 30 -profile profiles
//	go tool pprof -http : profiles/streams-64-gateway-profile.pprof
//
// -procs gateway=1 gives a role fewer threads; -binary compares builds.
package main
