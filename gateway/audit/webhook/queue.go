package webhook

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxWaiting = 1000 // events of a queue, with those between two tries
	// patience is how long an answer may take before the next event is sent beside it, and maxAtOnce
	// is how many requests to a receiver are under way at most.
	patience  = time.Second
	maxAtOnce = 16
	// endTime is how long events that are due may be sent after the queue has ended.
	endTime = 2 * time.Second
)

// pauses are those after the first try, the second, and so on. After the last one the event is given up.
func pauses() []time.Duration {
	return []time.Duration{
		5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
	}
}

// delivery is a message on its way to one receiver.
type delivery struct {
	*message
	tries int
	again *time.Timer // makes it due; nil before the first try
}

// queue has the events that wait for one receiver.
type queue struct {
	sender *Sender
	name   string
	ctx    context.Context // of all requests
	cancel context.CancelFunc
	work   sync.WaitGroup // of run

	sent, failed, dropped prometheus.Counter // of events; failed: given up

	mu      sync.Mutex
	target  *target
	waiting int                    // events: due, resting, or being sent
	due     []*delivery            // in their order
	resting map[*delivery]struct{} // between two tries
	running int                    // calls of run
	slow    int                    // of those, how many wait for an answer for longer than patience
	failing bool                   // a failure was logged, and nothing that ends it came since
	full    bool                   // an event was dropped, and at least half of the queue has waited since
	ended   bool
}

func (s *Sender) newQueue(name string) *queue {
	q := &queue{
		sender: s, name: name, resting: map[*delivery]struct{}{},
		sent: s.counts.WithLabelValues(name, "sent"), failed: s.counts.WithLabelValues(name, "failed"),
		dropped: s.counts.WithLabelValues(name, "dropped"),
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	return q
}

// lead makes the queue lead to a receiver.
func (q *queue) lead(r Receiver) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.target != nil {
		if q.target.same(r) {
			return
		}
		q.target.transport.CloseIdleConnections()
	}
	q.target, q.failing = newTarget(r), false
}

// reserve makes room for an event. It returns false if the receiver does not want it, or there is no room.
func (q *queue) reserve(event string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if events := q.target.Events; events != nil && !slices.Contains(events, event) {
		return false
	}
	if !q.ended && q.waiting < maxWaiting {
		q.waiting++
		return true
	}
	q.dropped.Inc()
	q.full = true
	q.fail("too many events wait; each further one is dropped")
	return false
}

// fail logs a failure, unless one was logged and no success came since. While events are dropped, a success
// is no end: it makes room for one event, and the next one is dropped.
func (q *queue) fail(reason string) {
	if !q.failing {
		q.failing = true
		q.sender.logger.Warn("a webhook failed", "name", q.name, "host", q.target.URL.Host, "reason", reason)
	}
}

// put makes a delivery due. It is lost if the queue has ended, which drain counts.
func (q *queue) put(d *delivery) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.resting, d)
	if !q.ended {
		q.due = append(q.due, d)
		q.start()
	}
}

// start starts a goroutine for events that are due, unless one will soon go on with them or there are too many.
func (q *queue) start() {
	if len(q.due) > 0 && q.running == q.slow && q.running < maxAtOnce {
		q.running++
		q.work.Go(q.run)
	}
}

// run sends events that are due, until none is or another call of run does so.
func (q *queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.due) > 0 && q.running-q.slow <= 1 && q.ctx.Err() == nil {
		d := q.due[0]
		q.due = slices.Delete(q.due, 0, 1)
		q.try(d)
	}
	q.running--
}

// try sends a delivery, without the lock that its caller holds.
func (q *queue) try(d *delivery) {
	target, answered, slow := q.target, false, false
	overdue := time.AfterFunc(patience, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if !answered { // it may be, while this waits for the lock
			slow = true
			q.slow++
			q.start()
		}
	})
	q.mu.Unlock()
	later, err := target.send(q.ctx, d.message)
	q.mu.Lock()
	overdue.Stop()
	if answered = true; slow {
		q.slow--
	}
	q.settle(d, later, err)
}

// settle counts a delivery after a try, or makes it due again. The receiver wants no other try before later.
func (q *queue) settle(d *delivery, later time.Duration, err error) {
	if err == nil {
		q.leave(q.sent)
		q.failing = q.full
		return
	}
	if q.ended { // drain counts and logs the lost events
		return
	}
	q.fail(err.Error())
	all := pauses()
	if status, _ := errors.AsType[statusError](err); status == http.StatusGone || d.tries == len(all) {
		q.leave(q.failed)
		return
	}
	pause := time.Duration(float64(all[d.tries]) * (0.9 + 0.2*rand.Float64()))
	d.tries++
	q.resting[d] = struct{}{}
	d.again = time.AfterFunc(max(pause, later), func() { q.put(d) })
}

// leave counts an event that does not wait any more.
func (q *queue) leave(result prometheus.Counter) {
	result.Inc()
	q.waiting--
	q.full = q.full && q.waiting > maxWaiting/2
}

// drain ends the queue. It sends events that are due while there is time, and counts and logs the lost ones.
func (q *queue) drain() {
	q.mu.Lock()
	q.ended = true
	for d := range q.resting {
		d.again.Stop()
	}
	q.mu.Unlock()
	last := time.AfterFunc(endTime, q.cancel)
	q.work.Wait()
	last.Stop()
	q.cancel()

	q.mu.Lock()
	defer q.mu.Unlock()
	q.target.transport.CloseIdleConnections()
	if q.waiting > 0 {
		q.dropped.Add(float64(q.waiting))
		q.sender.logger.Warn("events for a webhook are lost: the gateway stops, or has this webhook no more",
			"name", q.name, "host", q.target.URL.Host, "events", q.waiting)
	}
}
