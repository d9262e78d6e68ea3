package gateway

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/store"
	"authgate/policy"
)

// Explainer says what a gateway with a configuration does with a request, and
// why. A described request goes the way of [Gateway.ServeHTTP] up to the header
// that the upstream gets. Only what proves the identity is left out, and the
// count of a rate. An Explainer opens no connection and touches no file.
type Explainer struct {
	gateway *Gateway
	memory  *store.Memory
}

// Described is a request that is described instead of sent.
type Described struct {
	Method string
	// URL is an https URL, or a path at the host of public_url. The path and the
	// query are taken byte for byte.
	URL string
	// Header is what the client sends besides, in any case: not what proves who
	// it is, and nothing about the connection but Upgrade.
	Header http.Header
	// From is the address of the client. The zero Addr means 127.0.0.1.
	From netip.Addr
	// Verify makes a proxy ask about the request (forward authentication).
	Verify bool
	// Caller makes the request. Nil means a request without credentials.
	Caller *Caller
}

// Explanation is what the gateway does with a request.
type Explanation struct {
	Outcome    string // one of the outcomes below
	Status     int    // of the gateway's answer; 200 for a request that it lets through
	Route      string // its name, empty if there is none
	Upstream   string // of the route, also if the request does not get there
	Path       string // that the upstream gets, with the query; empty for a request that it does not get
	Reason     string // for operators
	Mechanisms []policy.Mechanism
	Mechanism  policy.Mechanism // that proved the identity, empty if none is proved
	Conditions []policy.Condition
	// StepUp is what a sign-in must prove for the request to be let in; zero if that would not
	// help, or is not needed.
	StepUp policy.Demand
	// Header is what the upstream gets: for a request that a proxy asks about,
	// the identity in the answer. It is nil for a request that is refused.
	Header http.Header
}

// Outcomes of an Explanation. The first three are those of policy.Decision, and
// OutcomeForbid is also a request that another rule refuses with 403.
const (
	OutcomeAllow      = "allow"
	OutcomeChallenge  = "challenge"
	OutcomeForbid     = "forbid"
	OutcomeNotFound   = "not_found"   // no route, or a host that is not the gateway's
	OutcomeBadRequest = "bad_request" // malformed or ambiguous
)

// NewExplainer returns an Explainer for a configuration.
func NewExplainer(cfg *config.Config) (*Explainer, error) {
	local := *cfg
	// Nothing is signed, and nothing is kept: keys of its own save those in
	// data_dir.
	local.Token.Algorithm, local.Token.Secret = config.AlgorithmHS256, config.Secret(rand.Text()+rand.Text())
	local.TLS.ClientCA = "" // no certificate is verified
	local.Store = config.Store{Driver: config.StoreMemory, EncryptionKey: config.Secret(rand.Text() + rand.Text())}
	memory := store.NewMemory(time.Now)
	g, err := assemble(Options{
		Config: &local, Store: memory, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		Version: "explain", shown: true,
	})
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	return &Explainer{gateway: g, memory: memory}, nil
}

// Close frees what the Explainer holds.
func (e *Explainer) Close() error {
	e.gateway.Close()
	return e.memory.Close()
}

// Explain returns what the gateway does with a request. The error tells
// that the configuration has no such user, or is a *DescriptionError.
func (e *Explainer) Explain(d *Described) (*Explanation, error) {
	st := e.gateway.state.Load()
	request, err := st.describe(d)
	if err != nil {
		return nil, err
	}
	identities, err := st.identities(d.Caller)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{exchange: exchange{gateway: e.gateway, state: st}, identities: identities}
	if d.Caller != nil {
		r.caller = *d.Caller
	}
	r.Init(st.site, &unsent{http.Header{}}, request)
	r.beginTrace() // and never ends it, so that nothing is sent to the collector
	return r.conclude(r.run(d.Verify))
}

// allow notes in x that the gateway answers the request or lets it through.
func (x *Explanation) allow(status int, reason string) {
	x.Outcome, x.Status, x.Reason = OutcomeAllow, status, reason
}
