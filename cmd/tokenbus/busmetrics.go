package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tokenbus/tokenbus/bus"
)

// How often the way to the bus is measured, and how long a measurement may take.
const (
	roundTripEvery   = 5 * time.Second
	roundTripTimeout = 2 * time.Second
)

// watchLink shows the connections of a process to the bus, and the deployment that is
// seen over them. One link of a process is shown.
func (a *admin) watchLink(p *parts, link *bus.Link) {
	a.operator = &operatorSide{link: link}
	a.gauge("tokenbus_bus_connected", "Whether all data connections to the bus are up.", func() float64 {
		if link.Connected() {
			return 1
		}
		return 0
	})
	a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "tokenbus_bus_reconnects_total", Help: "Connections to the bus that were lost and came back.",
	}, func() float64 { return float64(link.Reconnects()) }))
	took := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "tokenbus_bus_round_trip_seconds", Help: "Time of a message to the NATS server and back, measured every 5 s.",
		Buckets:                     []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	})
	a.registry.MustRegister(took)
	p.start("bus round trip", func(ctx context.Context) error {
		t := time.NewTicker(roundTripEvery)
		defer t.Stop()
		for {
			once, cancel := context.WithTimeout(ctx, roundTripTimeout)
			if d, err := link.RoundTrip(once); err == nil {
				took.Observe(d.Seconds())
			}
			cancel()
			select {
			case <-ctx.Done():
				return nil
			case <-t.C:
			}
		}
	})
}

// serverCollector shows an embedded NATS server.
type serverCollector struct{ srv *bus.Server }

// serverMetrics are the numbers of a server. Those of JetStream are absent if it has
// none.
var serverMetrics = []struct {
	desc      *prometheus.Desc
	kind      prometheus.ValueType
	jetstream bool
	get       func(s *bus.ServerStats) float64
}{
	{busDesc("connections", "Connections of clients."), prometheus.GaugeValue, false, func(s *bus.ServerStats) float64 { return float64(s.Connections) }},
	{busDesc("routes", "Connections to other servers of the cluster."), prometheus.GaugeValue, false, func(s *bus.ServerStats) float64 { return float64(s.Routes) }},
	{busDesc("leafs", "Connections of leaf nodes."), prometheus.GaugeValue, false, func(s *bus.ServerStats) float64 { return float64(s.Leafs) }},
	{busDesc("subscriptions", "Subscriptions."), prometheus.GaugeValue, false, func(s *bus.ServerStats) float64 { return float64(s.Subscriptions) }},
	{busDesc("slow_consumers_total", "Connections that were cut because they did not read."), prometheus.CounterValue, false, func(s *bus.ServerStats) float64 { return float64(s.SlowConsumers) }},
	{busDesc("in_messages_total", "Messages that came."), prometheus.CounterValue, false, func(s *bus.ServerStats) float64 { return float64(s.InMessages) }},
	{busDesc("out_messages_total", "Messages that went."), prometheus.CounterValue, false, func(s *bus.ServerStats) float64 { return float64(s.OutMessages) }},
	{busDesc("in_bytes_total", "Bytes of the messages that came."), prometheus.CounterValue, false, func(s *bus.ServerStats) float64 { return float64(s.InBytes) }},
	{busDesc("out_bytes_total", "Bytes of the messages that went."), prometheus.CounterValue, false, func(s *bus.ServerStats) float64 { return float64(s.OutBytes) }},
	{busDesc("jetstream_memory_bytes", "Memory that JetStream uses."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.MemoryBytes) }},
	{busDesc("jetstream_memory_limit_bytes", "Memory that JetStream may use."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.MemoryLimitBytes) }},
	{busDesc("jetstream_storage_bytes", "Disk that JetStream uses."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.StorageBytes) }},
	{busDesc("jetstream_storage_limit_bytes", "Disk that JetStream may use."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.StorageLimitBytes) }},
	{busDesc("jetstream_streams", "Streams, those of KV buckets among them."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.Streams) }},
	{busDesc("jetstream_consumers", "Consumers."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.Consumers) }},
	{busDesc("jetstream_messages", "Messages stored."), prometheus.GaugeValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.Messages) }},
	{busDesc("jetstream_api_requests_total", "Requests to JetStream."), prometheus.CounterValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.APIRequests) }},
	{busDesc("jetstream_api_errors_total", "Those that failed."), prometheus.CounterValue, true, func(s *bus.ServerStats) float64 { return float64(s.JetStream.APIErrors) }},
}

func busDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("tokenbus_bus_server_"+name, help, nil, nil)
}

// Describe implements [prometheus.Collector].
func (serverCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range serverMetrics {
		ch <- m.desc
	}
}

// Collect implements [prometheus.Collector].
func (c serverCollector) Collect(ch chan<- prometheus.Metric) {
	s, err := c.srv.Stats()
	if err != nil {
		return // it stops; absent is not zero
	}
	for _, m := range serverMetrics {
		if !m.jetstream || s.JetStream != nil {
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.get(&s))
		}
	}
}
