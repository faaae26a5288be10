package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/tokenbus/tokenbus/agent"
	"github.com/tokenbus/tokenbus/bus"
	"github.com/tokenbus/tokenbus/cmd/tokenbus/internal/overview"
)

// finding is one line of the doctor.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning, failed
	Text   string `json:"text"`
	Fix    string `json:"fix,omitempty"`
}

const (
	findingOK      = "ok"
	findingWarning = "warning"
	findingFailed  = "failed"
)

type doctorCmd struct {
	operatorFlags
	engineFlags
	Engine     []string   `help:"Engine to check from here, before there is an agent; may be repeated." placeholder:"URL"`
	EngineKind engineKind `help:"Kind of those engines; auto finds out each." enum:"auto,vllm,sglang,llamacpp,ollama,infinity,tei,openai" default:"auto"`
	NoBus      bool       `help:"Check only the engines that --engine names."`
}

// Examples is printed first by --help.
func (*doctorCmd) Examples() string {
	return `tokenbus doctor
tokenbus doctor --no-bus --engine http://127.0.0.1:8000
tokenbus doctor --json --nats nats://bus-1:4222 --nats nats://bus-2:4222`
}

// Run checks, and ends with 0 if all is well, 1 if something deserves a look and 2 if
// something is broken.
func (c *doctorCmd) Run(ctx context.Context) error {
	if c.NoBus && len(c.Engine) == 0 {
		return errors.New("--no-bus: leaves nothing to check without --engine URL")
	}
	log, err := c.logger()
	if err != nil {
		return err
	}
	var all []finding
	cfg := agent.Default()
	if err := c.configure(&cfg, c.EngineKind); err != nil {
		return err
	}
	for _, cfg.EngineURL = range c.Engine {
		all = append(all, checkEngine(ctx, cfg)...)
	}
	if !c.NoBus {
		all = append(all, c.checkBus(ctx, log)...)
	}
	if c.JSON {
		err = printJSON(os.Stdout, all)
	} else {
		err = writeFindings(os.Stdout, all)
	}
	worst := 0
	for _, f := range all {
		worst = max(worst, map[string]int{findingOK: 0, findingWarning: 1, findingFailed: 2}[f.Status])
	}
	if err == nil && worst > 0 {
		return errExit(worst)
	}
	return err
}

func writeFindings(w io.Writer, all []finding) error {
	for _, f := range all {
		if _, err := fmt.Fprintf(w, "%-8s%s: %s\n", f.Status, f.Check, f.Text); err != nil {
			return err
		}
		if f.Fix != "" {
			fmt.Fprintf(w, "        fix: %s\n", f.Fix)
		}
	}
	return nil
}

// checkEngine asks an engine for its health, its models, its metrics and one token.
func checkEngine(ctx context.Context, cfg agent.Config) []finding {
	check := "engine " + cfg.EngineURL
	x, err := agent.CheckEngine(ctx, cfg)
	switch {
	case err != nil:
		return []finding{{check, findingFailed, err.Error(), "start the engine, or name its base URL without /v1, and its key with --engine-key-file"}}
	case !x.Check.OK:
		return []finding{{check, findingFailed, "model " + x.Check.Model + ": " + x.Check.Error, "look into the engine's log"}}
	}
	text := fmt.Sprintf("%s %s, model %s answers on %s in %d ms", x.Kind, x.Info.Version, x.Check.Model, x.Check.API, x.Check.MS)
	if x.Info.Capacity > 0 {
		text += fmt.Sprintf(", %d requests at one time", x.Info.Capacity)
	}
	all := []finding{{check, findingOK, text, ""}}
	if x.NoMetrics {
		all = append(all, finding{check, findingWarning, "it shows no metrics; gates and strategies that look at the engine see nothing", overview.FixNoMetrics})
	}
	if c := x.Info.PrefixCaching; c != nil && !*c {
		all = append(all, finding{check, findingWarning, "its prefix caching is off; each turn of a conversation is read anew", overview.FixNoCaching})
	}
	return all
}

// checkBus checks everything from the server to the engines.
func (c *doctorCmd) checkBus(ctx context.Context, log *slog.Logger) []finding {
	var all []finding
	add := func(check, status, fix, format string, args ...any) {
		all = append(all, finding{check, status, fmt.Sprintf(format, args...), fix})
	}
	payloads := make(map[int]bool)
	var link *bus.Link
	for _, url := range c.NATS {
		dial, cancel := context.WithTimeout(ctx, c.Timeout)
		l, err := natsFlags{NATS: []string{url}, Creds: c.Creds}.dial(dial, "tokenbus doctor", 1, log)
		cancel()
		if err != nil {
			add("bus "+url, findingFailed, "start the server there, or correct --nats; a firewall may be in between", "can't be reached within %v: %v", c.Timeout, err)
			continue
		}
		defer l.Close()
		ask, cancel := context.WithTimeout(ctx, c.Timeout)
		info, err := l.ServerInfo(ask)
		cancel()
		if err != nil {
			add("bus "+url, findingFailed, "look into the server's log", "%v", err)
			continue
		}
		payloads[info.MaxPayload] = true
		add("bus "+url, findingOK, "", "nats-server %s answers in %.1f ms, max_payload %d bytes", info.Version, info.RTTMS, info.MaxPayload)
		if link == nil {
			link = l
		}
	}
	if link == nil {
		return all
	}
	switch {
	case len(payloads) > 1:
		add("max_payload", findingFailed, "set max_payload: 8MB on every server; unequal values tear leaf links down", "the servers have different values")
	case !payloads[8<<20]:
		add("max_payload", findingWarning, "set max_payload: 8MB on every server", "it is not the 8 MiB that Tokenbus is made for; answers that come in one message are limited by it")
	default:
		add("max_payload", findingOK, "", "8 MiB on every server that was named")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	c.checkRights(ctx, link, add)
	c.checkParts(ctx, link, add)
	return all
}

type addFinding func(check, status, fix, format string, args ...any)

// checkRights checks what this credential may do, and what JetStream can.
func (c *doctorCmd) checkRights(ctx context.Context, link *bus.Link, add addFinding) {
	const check = "permissions"
	subject := bus.EventSubject("doctor", "")
	ask, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := link.Allowed(ask, subject); err != nil {
		add(check, findingFailed, "give the user of --creds publish and subscribe on tb.>", "%v", err)
	} else {
		add(check, findingOK, "", "a message on %s comes back", subject)
	}
	for _, name := range []string{bus.BucketAgents, bus.BucketCounters, bus.BucketConfig} {
		ctx, cancel := context.WithTimeout(ctx, c.Timeout)
		_, err := link.Bucket(ctx, name)
		cancel()
		if err != nil {
			add("JetStream "+name, findingWarning, "enable JetStream on the server, with room on its disk; traffic flows without it", "%v", err)
		} else {
			add("JetStream "+name, findingOK, "", "can be read")
		}
	}
}

// checkParts checks who is on the bus, and asks every engine for one token.
func (c *doctorCmd) checkParts(ctx context.Context, link *bus.Link, add addFinding) {
	o, err := overview.Look(ctx, link)
	if err != nil {
		add("deployment", findingFailed, "look into the server's log", "%v", err)
		return
	}
	add("deployment", findingOK, "", "%d gateways, %d schedulers, %d agents", o.Gateways, o.Schedulers, len(o.Agents))
	clocks := true
	for _, w := range o.Warnings {
		status := findingWarning
		switch w.Severity {
		case overview.SeverityError:
			status = findingFailed
		case overview.SeverityNotice:
			status = findingOK
		}
		clocks = clocks && w.Code != "clock"
		add(w.Subject, status, w.Fix, "%s", w.Text)
	}
	if clocks && len(o.Agents) > 0 {
		add("clocks", findingOK, "", "those of the agents and this one agree within 2 s")
	}
	for _, a := range o.Agents {
		if a.Condition == "unreachable" {
			continue
		}
		check := "engine of " + a.ID
		var said bus.Check
		switch err := link.Command(ctx, a.ID, "check", nil, &said); {
		case err != nil:
			add(check, findingFailed, "look into the agent's log", "%v", err)
		case !said.OK:
			add(check, findingFailed, "look into the engine's log; the agent's --engine-url and --engine-key-file may be wrong", "%s", said.Error)
		default:
			add(check, findingOK, "", "model %s answers on %s in %d ms", said.Model, said.API, said.MS)
		}
	}
}
