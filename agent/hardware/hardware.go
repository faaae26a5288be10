package hardware

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tokenbus/tokenbus/bus"
)

// FreshFor is how long a reading counts.
const FreshFor = 15 * time.Second

// Bounds of the time between two readings.
const (
	MinInterval = 200 * time.Millisecond
	MaxInterval = 10 * time.Second // shorter than FreshFor, so that nothing is stale between two
)

// Config is what a sampler needs.
type Config struct {
	Interval time.Duration // between two readings; 0: none is made
	GPUs     string        // all, none, or a list of indexes and ids, with commas between
	Log      *slog.Logger
}

// Validate reports everything that is wrong, each with the flag that sets it.
func (c Config) Validate() error {
	var errs []error
	if d := c.Interval; d != 0 && (d < MinInterval || d > MaxInterval) {
		errs = append(errs, fmt.Errorf("--hardware-interval: %v is neither 0 nor between %v and %v", d, MinInterval, MaxInterval))
	}
	if _, err := parseFilter(c.GPUs); err != nil {
		errs = append(errs, fmt.Errorf("--gpus: %w", err))
	}
	return errors.Join(errs...)
}

// Sampler reads the hardware of the host again and again. It is safe for concurrent use.
type Sampler struct {
	cfg    Config
	filter filter
	tools  []tool
	host   hostReader

	mu   sync.Mutex
	gpus reading // nobody writes into what it points to
	cpu  reading
}

// reading is what one source gave, and when; the zero time if it gave nothing.
type reading struct {
	at    time.Time
	value bus.Hardware
}

// New makes a sampler, which reads nothing before [Sampler.Run].
func New(cfg Config) (*Sampler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	f, _ := parseFilter(cfg.GPUs)
	return &Sampler{cfg: cfg, filter: f, tools: []tool{nvidia, rocm}}, nil
}

// Run reads until ctx ends. What it started has stopped when it returns, but for a
// tool that can't be killed, which the process leaves behind.
func (s *Sampler) Run(ctx context.Context) error {
	if s.cfg.Interval == 0 {
		<-ctx.Done()
		return nil
	}
	var g errgroup.Group
	g.Go(func() error { s.watchHost(ctx); return nil })
	if !s.filter.none {
		g.Go(func() error { s.watchGPUs(ctx); return nil })
	}
	return g.Wait()
}

// Latest is what is known of the hardware now, or nil if that is nothing. Readings
// older than [FreshFor] are left out. Nobody may change what it points to.
func (s *Sampler) Latest() *bus.Hardware {
	s.mu.Lock()
	gpus, cpu := s.gpus, s.cpu
	s.mu.Unlock()
	now := time.Now()
	var h bus.Hardware
	known := false
	fresh := func(r reading) bool {
		age := now.Sub(r.at)
		if r.at.IsZero() || age > FreshFor {
			return false
		}
		known, h.AgeMS = true, max(h.AgeMS, age.Milliseconds())
		return true
	}
	if fresh(cpu) {
		h = cpu.value
		h.AgeMS = now.Sub(cpu.at).Milliseconds()
	}
	if fresh(gpus) {
		h.GPUs, h.GPUError = gpus.value.GPUs, gpus.value.GPUError
	}
	if !known {
		return nil
	}
	return &h
}

func (s *Sampler) watchHost(ctx context.Context) {
	for {
		if value, ok := s.host.read(ctx); ok {
			s.mu.Lock()
			s.cpu = reading{time.Now(), value}
			s.mu.Unlock()
		}
		if !pause(ctx, s.cfg.Interval) {
			return
		}
	}
}

// Timings of the GPU tools.
const (
	toolTimeout = 5 * time.Second
	noToolWait  = time.Minute // until a host without a tool is looked at again
	dutyCycle   = 4           // a tool that takes long rests this many times as long
)

func (s *Sampler) watchGPUs(ctx context.Context) {
	said := ""
	for {
		began := time.Now()
		gpus, err := s.readGPUs(ctx)
		if ctx.Err() != nil {
			return
		}
		rest := min(max(s.cfg.Interval, dutyCycle*time.Since(began)), MaxInterval)
		var r reading
		switch {
		case errors.Is(err, errNoTool):
			rest = noToolWait
		case err == nil && len(gpus) == 0: // a tool on a host without a device
		default:
			r = reading{time.Now(), bus.Hardware{GPUs: gpus}}
			if err != nil {
				r.value.GPUError = err.Error()
			}
		}
		if text := r.value.GPUError; text != said {
			if said = text; text != "" {
				s.cfg.Log.Warn("GPUs can't be read", "err", text)
			}
		}
		s.mu.Lock()
		s.gpus = r
		s.mu.Unlock()
		if !pause(ctx, rest) {
			return
		}
	}
}

// errNoTool tells that no vendor's tool is installed.
var errNoTool = errors.New("neither nvidia-smi nor rocm-smi is installed")

// readGPUs asks the tools, in order, until one gives devices. With an error there may
// be devices, too: those of the filter that exist.
func (s *Sampler) readGPUs(ctx context.Context) ([]bus.GPU, error) {
	var errs []error
	found := false
	for _, t := range s.tools {
		path, ok := t.find()
		if !ok {
			continue
		}
		found = true
		out, err := output(ctx, path, t.args...)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, err))
			continue
		}
		gpus, err := t.parse(out)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", t.name, err))
			continue
		}
		if len(gpus) > 0 {
			return s.filter.apply(gpus)
		}
	}
	if !found {
		if s.filter.named() {
			return nil, fmt.Errorf("--gpus names %s, but %w", s.cfg.GPUs, errUnread)
		}
		return nil, errNoTool
	}
	if err := errors.Join(errs...); err != nil || !s.filter.named() {
		return nil, err
	}
	return s.filter.apply(nil)
}

var errUnread = errors.New("neither nvidia-smi nor rocm-smi is installed here")

// filter says which devices count.
type filter struct {
	none bool
	want []string // indexes and ids in lower case; empty: all
}

func (f filter) named() bool { return len(f.want) > 0 }

func parseFilter(text string) (filter, error) {
	switch strings.TrimSpace(text) {
	case "", "all":
		return filter{}, nil
	case "none":
		return filter{none: true}, nil
	}
	var f filter
	for name := range strings.SplitSeq(text, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "":
			return filter{}, fmt.Errorf("%q has an empty part", text)
		case name == "all" || name == "none":
			return filter{}, fmt.Errorf("%q: %s stands alone", text, name)
		case slices.Contains(f.want, name):
			return filter{}, fmt.Errorf("%q names %s twice", text, name)
		}
		f.want = append(f.want, name)
	}
	if len(f.want) > bus.MaxGPUs {
		return filter{}, fmt.Errorf("%d devices are more than %d", len(f.want), bus.MaxGPUs)
	}
	return f, nil
}

// apply keeps the devices that count, and reports those that were named and do not exist.
func (f filter) apply(gpus []bus.GPU) ([]bus.GPU, error) {
	if !f.named() {
		return gpus[:min(len(gpus), bus.MaxGPUs)], nil
	}
	var kept []bus.GPU
	missing := slices.Clone(f.want)
	for _, g := range gpus {
		names := func(want string) bool { return want == fmt.Sprint(g.Index) || want == strings.ToLower(g.ID) }
		if slices.ContainsFunc(f.want, names) {
			kept = append(kept, g)
			missing = slices.DeleteFunc(missing, names)
		}
	}
	if len(missing) > 0 {
		return kept, fmt.Errorf("--gpus names %s, which this host does not have", strings.Join(missing, ", "))
	}
	return kept, nil
}

// pause waits, and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
