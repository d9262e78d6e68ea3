package chaos

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"
)

// Kind is what an event is.
type Kind string

// Requests of clients.
const (
	Login   Kind = "login"   // POST /login
	Use     Kind = "use"     // a request that the upstream answers
	Me      Kind = "me"      // GET /me
	Refresh Kind = "refresh" // POST /refresh
	Logout  Kind = "logout"  // POST or GET /logout
)

// Faults that the test causes, and stalls of the machine.
const (
	Disable Kind = "disable" // from the change of the file until each instance refuses the account
	Enable  Kind = "enable"  // the reverse
	Reload  Kind = "reload"  // SIGHUP
	Down    Kind = "down"    // from the signal that stops an instance until it is ready again
	Outage  Kind = "outage"  // from a fault of the store until the instances are ready again
	Stall   Kind = "stall"   // a process answered a trivial request late
)

// Event is a request or a fault between Begin and End, counted from the start of the
// history.
type Event struct {
	Kind  Kind          `json:"kind"`
	At    string        `json:"at,omitempty"` // the instance; empty: all
	Begin time.Duration `json:"begin"`
	End   time.Duration `json:"end"`
	User  string        `json:"user,omitempty"` // whose credential or account it is

	// Login is the number of the request's login. Credential names its credential:
	// Session, or a token and its number. Neither is a secret.
	Login      int    `json:"login,omitempty"`
	Credential string `json:"credential,omitempty"`

	Status int    `json:"status,omitempty"` // 0: there was no answer
	Note   string `json:"note,omitempty"`   // which fault, or why there was no answer

	// Request identifies a request. Answered is the identity in the answer, and Seen
	// are the identities that the upstream got with this request.
	Request  string     `json:"request,omitempty"`
	Answered *Identity  `json:"answered,omitempty"`
	Seen     []Identity `json:"seen,omitempty"`
}

// Identity is the identity that the upstream gets, and the request.
type Identity struct {
	User      string `json:"user"`
	Mechanism string `json:"mechanism"`
	Request   string `json:"request,omitempty"`
}

// Session is the credential of a session.
const Session = "session"

// good reports whether the request succeeded. A logout by link answers with a
// redirect.
func (e *Event) good() bool { return e.Status == 200 || e.Kind == Logout && e.Status == 302 }

// History collects events of many goroutines.
type History struct {
	start time.Time

	mu     sync.Mutex
	events []Event
}

// NewHistory begins a history.
func NewHistory() *History { return &History{start: time.Now()} }

// Now is the time since the history began. The clock is monotonic.
func (h *History) Now() time.Duration { return time.Since(h.start) }

// Add records an event that has ended.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

// Events returns a copy of all events in the order in which they began.
func (h *History) Events() []Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := slices.Clone(h.events)
	slices.SortStableFunc(events, func(a, b Event) int { return int(a.Begin - b.Begin) })
	return events
}

// Write writes events as JSON, one on each line.
func Write(w io.Writer, events []Event) error {
	out := bufio.NewWriter(w)
	encoder := json.NewEncoder(out)
	for _, e := range events {
		if err := encoder.Encode(e); err != nil {
			return err
		}
	}
	return out.Flush()
}
