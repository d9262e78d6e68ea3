package chaos

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// kind is the kind of an event.
type kind string

// Requests of clients.
const (
	kindLogin   kind = "login"   // POST /login
	kindUse     kind = "use"     // a request that the upstream answers
	kindMe      kind = "me"      // GET /me
	kindRefresh kind = "refresh" // POST /refresh
	kindLogout  kind = "logout"  // POST or GET /logout
)

// Faults that the test causes, and stalls of the machine.
const (
	kindDisable kind = "disable" // from the change of the file until each instance refuses the account
	kindEnable  kind = "enable"  // the reverse
	kindReload  kind = "reload"  // SIGHUP
	kindDown    kind = "down"    // from the signal that stops an instance until it is ready again
	kindOutage  kind = "outage"  // from a fault of the store until the instances are ready again
	kindStall   kind = "stall"   // a process answered a trivial request late
)

// event is a request or a fault between Begin and End, counted from the start of the
// history.
type event struct {
	Kind  kind          `json:"kind"`
	At    string        `json:"at,omitempty"` // the instance; empty: all
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
	User  string        `json:"user,omitempty"` // whose credential or account it is

	// Login is the number of the request's login. Credential names its credential:
	// session, or a token and its number. Neither is a secret.
	Login      int    `json:"login,omitempty"`
	Credential string `json:"credential,omitempty"`

	Status int    `json:"status,omitempty"` // 0: there was no answer
	Note   string `json:"note,omitempty"`   // which fault, or why there was no answer

	// Request identifies a request. Answered is the identity in the answer, and Seen
	// are the identities that the upstream got with this request.
	Request  string     `json:"request,omitempty"`
	Answered *identity  `json:"answered,omitempty"`
	Seen     []identity `json:"seen,omitempty"`
}

// identity is the identity that the upstream gets, and the request.
type identity struct {
	User      string `json:"user"`
	Mechanism string `json:"mechanism"`
	Request   string `json:"request,omitempty"`
}

// session is the credential of a session.
const session = "session"

// good reports whether the request succeeded. A logout by link answers with a
// redirect.
func (e *event) good() bool { return e.Status == 200 || e.Kind == kindLogout && e.Status == 302 }

// history collects events of many goroutines.
type history struct {
	start time.Time

	mu     sync.Mutex
	events []event
}

// newHistory begins a history.
func newHistory() *history { return &history{start: time.Now()} }

// Now is the time since the history began. The clock is monotonic.
func (h *history) Now() time.Duration { return time.Since(h.start) }

// Add records an event that has ended.
func (h *history) Add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Events returns a copy of all events in the order in which they began.
func (h *history) Events() []event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortStableFunc(events, func(a, b event) int { return int(a.Begin - b.Begin) })
	return events
}

// writeEvents writes events as JSON, one on each line.
func writeEvents(w io.Writer, events []event) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return out.Flush()
}
