package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Buckets. Every key has exactly one process that writes it (invariant 9).
const (
	BucketAgents   = "TB_AGENTS"
	BucketCounters = "TB_COUNTERS"
	BucketConfig   = "TB_CONFIG" // written by operators
)

// Lifetimes in TB_AGENTS. A record must survive a JetStream leader election, which
// takes several seconds.
const (
	RecordTTL     = 60 * time.Second
	RecordRefresh = 15 * time.Second
	markerTTL     = time.Hour
	jsTimeout     = 5 * time.Second
	clusterCopies = 3
)

// ErrNoJetStream tells that JetStream does not answer. Traffic does not need it.
var ErrNoJetStream = errors.New("JetStream is not available")

// Bucket opens a bucket of this package, making it on first use with as many
// copies as the cluster allows.
func (l *Link) Bucket(ctx context.Context, name string) (jetstream.KeyValue, error) {
	cfg := jetstream.KeyValueConfig{Bucket: name, History: 1}
	switch name {
	case BucketAgents:
		cfg.Description = "what each agent says of itself, while it lives"
		cfg.Storage, cfg.TTL, cfg.LimitMarkerTTL = jetstream.MemoryStorage, RecordTTL, markerTTL
	case BucketCounters:
		cfg.Description = "lifetime counters, one key a writer"
		cfg.Storage = jetstream.FileStorage
	case BucketConfig:
		cfg.Description = "policies and orders, as operators wrote them"
		cfg.Storage, cfg.History = jetstream.FileStorage, configHistory
	default:
		return nil, fmt.Errorf("bucket %s is not one of ours", name)
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	kv, err := l.JS.KeyValue(ctx, name)
	if err == nil {
		return kv, nil
	}
	if !errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("open %s: %w: %w", name, ErrNoJetStream, err)
	}
	cfg.Replicas = 1
	if l.Control.ConnectedClusterName() != "" {
		cfg.Replicas = clusterCopies
	}
	kv, err = l.JS.CreateKeyValue(ctx, cfg)
	if err != nil && cfg.Replicas > 1 {
		cfg.Replicas = 1
		kv, err = l.JS.CreateKeyValue(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = l.JS.KeyValue(ctx, name) // another process was faster
	}
	if err != nil {
		return nil, fmt.Errorf("make %s: %w: %w", name, ErrNoJetStream, err)
	}
	return kv, nil
}

// PutJSON writes a document.
func (l *Link) PutJSON(ctx context.Context, bucket, key string, doc any) error {
	kv, err := l.Bucket(ctx, bucket)
	if err != nil {
		return err
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode %s: %w", key, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	if _, err := kv.Put(ctx, key, b); err != nil {
		return fmt.Errorf("write %s %s: %w", bucket, key, err)
	}
	return nil
}

// GetJSON reads a document; found is false if the key does not exist.
func (l *Link) GetJSON(ctx context.Context, bucket, key string, doc any) (found bool, err error) {
	kv, err := l.Bucket(ctx, bucket)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read %s %s: %w", bucket, key, err)
	}
	if err := json.Unmarshal(e.Value(), doc); err != nil {
		return false, fmt.Errorf("decode %s %s: %w", bucket, key, err)
	}
	return true, nil
}

// DeleteRecord removes the record of an agent process. That of another process of the
// same id, which may have started already, stays.
func (l *Link) DeleteRecord(ctx context.Context, agent, epoch string) error {
	kv, err := l.Bucket(ctx, BucketAgents)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	e, err := kv.Get(ctx, RecordKey(agent))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the record of %s: %w", agent, err)
	}
	if r, err := DecodeRecord(e.Value()); err != nil || r.Epoch != epoch {
		return nil //nolint:nilerr // not ours
	}
	return kv.Delete(ctx, RecordKey(agent), jetstream.LastRevision(e.Revision()))
}

// Documents reads all documents of a bucket.
func Documents[T any](ctx context.Context, l *Link, bucket string) ([]T, error) {
	kv, err := l.Bucket(ctx, bucket)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, jsTimeout)
	defer cancel()
	w, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", bucket, err)
	}
	var docs []T
	for {
		select {
		case e := <-w.Updates():
			if e == nil {
				return docs, w.Stop()
			}
			var doc T
			if json.Unmarshal(e.Value(), &doc) == nil {
				docs = append(docs, doc)
			}
		case <-ctx.Done():
			return docs, errors.Join(ctx.Err(), w.Stop())
		}
	}
}

// RecordKey is the key of an agent in TB_AGENTS.
func RecordKey(agent string) string { return EncodeToken(agent) }

// AgentCountersKey is the key of an agent in TB_COUNTERS.
func AgentCountersKey(agent string) string { return "agent." + EncodeToken(agent) }

// WaitJetStream waits until JetStream answers, saying so once; it returns early
// when ctx ends. Traffic does not wait for it.
func (l *Link) WaitJetStream(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		_, err := l.Bucket(ctx, BucketAgents)
		if err == nil {
			return nil
		}
		if attempt == 3 {
			l.log.Warn("waiting for JetStream; traffic flows without it", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(reconnectDelay(attempt)):
		}
	}
}

// publishInfo publishes on the control connection and forgets: beats and events
// are said again or missed.
func (l *Link) publishInfo(subject string, data []byte) { _ = l.Control.Publish(subject, data) }

// PublishJSON says a document once, on core NATS.
func (l *Link) PublishJSON(subject string, doc any) {
	if b, err := json.Marshal(doc); err == nil {
		l.publishInfo(subject, b)
	}
}

// PublishText says a word once, on core NATS.
func (l *Link) PublishText(subject, text string) { l.publishInfo(subject, []byte(text)) }
