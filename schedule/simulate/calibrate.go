package simulate

const (
	calibrations = 4
	// calibrateAt is below saturation, where a queue says more of its length than of
	// the caches.
	calibrateAt = 0.9
)

// capacity is the requests a second that the fleet of a configuration can take of its
// workload: [Model.Capacity] times the sum of the speeds of the engines.
//
// The characters of a prefill in it are those that least-loaded leaves to be computed.
// Shared prompts that are in every cache anyway are not load, and at a share of what
// the fleet could do without any cache, all strategies would be idle. So least-loaded
// runs a few times, each time at the load that the hit rate of the time before gives.
// Without shared prefixes the hit rate is 0, and this is the case of no cache.
func capacity(cfg Config, t *traffic) float64 {
	m := cfg.Model
	sum := 0.0
	for _, s := range cfg.speeds() {
		sum += s
	}
	rate := sum * m.Capacity(t.chars, t.answer)
	if t.workload.Systems == 0 && t.workload.Turns == 1 {
		return rate
	}
	cfg.Strategy, cfg.Watch, cfg.Schedulers = "least-loaded", nil, 1
	for range calibrations {
		r := simulate(cfg, t, calibrateAt*rate).result(rate)
		rate = sum * m.Capacity(t.chars*(1-r.HitRate), t.answer)
	}
	return rate
}
