package webhook

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// Sender sends events to receivers. It is safe for concurrent use. A nil Sender sends nothing.
type Sender struct {
	logger *slog.Logger
	counts *prometheus.CounterVec // of events, by name and result

	queues atomic.Pointer[[]*queue]

	setting sync.Mutex     // one change of queues at a time
	ending  sync.WaitGroup // of queues that have no receiver any more
}

// New returns a sender to these receivers, which logs failures and counts events.
func New(logger *slog.Logger, registry prometheus.Registerer, receivers []Receiver) (*Sender, error) {
	s := &Sender{logger: logger, counts: newCounts()}
	s.queues.Store(new([]*queue))
	s.Set(receivers)
	return s, registry.Register(s.counts)
}

func newCounts() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "authgate_webhooks_total", Help: "Audit events for webhooks: sent, given up, or dropped.",
	}, []string{"name", "result"})
}

// Set replaces the receivers. Events that wait for a receiver wait on for the new one of that name.
// Those for others are lost: they are counted and logged. Set does not wait for any receiver.
func (s *Sender) Set(receivers []Receiver) {
	if s == nil {
		return
	}
	s.setting.Lock()
	defer s.setting.Unlock()
	before := map[string]*queue{}
	for _, q := range *s.queues.Load() {
		before[q.name] = q
	}
	next := make([]*queue, len(receivers))
	for i, r := range receivers {
		if next[i] = before[r.Name]; next[i] == nil {
			next[i] = s.newQueue(r.Name)
		}
		next[i].lead(r)
		delete(before, r.Name)
	}
	s.queues.Store(&next)
	for _, q := range before {
		s.ending.Go(q.drain)
	}
}

// Send puts an event into the queue of each receiver that wants it, and does not wait. The event is a
// record of an audit.Recorder, whose first field is the name.
func (s *Sender) Send(event slog.Record) {
	if s == nil {
		return
	}
	var name string
	event.Attrs(func(first slog.Attr) bool {
		name = first.Value.String()
		return false
	})
	var m *message
	for _, q := range *s.queues.Load() {
		if !q.reserve(name) {
			continue
		}
		if m == nil {
			m = newMessage(name, event)
		}
		q.put(&delivery{message: m})
	}
}

// Close ends the sender. For two seconds at most it sends events that are due; all others that wait are lost.
func (s *Sender) Close() {
	if s != nil {
		s.Set(nil)
		s.ending.Wait()
	}
}
