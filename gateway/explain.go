package gateway

import (
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"authgate/gateway/config"
	"authgate/gateway/explain"
	"authgate/gateway/store"
)

// Explainer explains how a gateway with a configuration treats a request. A described request goes
// the way of [Gateway.ServeHTTP] up to the header that the upstream gets. Only the credentials and
// the count of a rate are left out. An Explainer opens no connection and touches no file.
type Explainer struct {
	gateway *Gateway
	memory  *store.Memory
}

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

// Close frees the resources of the Explainer.
func (e *Explainer) Close() error {
	e.gateway.Close()
	return e.memory.Close()
}

// Explain returns how the gateway treats a request. The error tells that the configuration has no
// such user, or is an *explain.Mistake.
func (e *Explainer) Explain(d *explain.Request) (*explain.Result, error) {
	st := e.gateway.state.Load()
	request, err := d.HTTP(st.config)
	if err != nil {
		return nil, err
	}
	known := explain.Known{
		Config: st.config, Accounts: st.mechanisms.Accounts, Basic: st.mechanisms.Basic, Federation: st.federation,
		OAuth: st.oauth,
	}
	identities, err := known.Identities(d.Caller)
	if err != nil {
		return nil, err
	}
	r := &rehearsal{exchange: exchange{gateway: e.gateway, state: st}, identities: identities}
	if d.Caller != nil {
		r.caller, r.lent = *d.Caller, known.Lent(d.Caller)
	}
	r.Init(st.site, &unsent{http.Header{}}, request)
	r.beginTrace() // and never ends it, so that nothing is sent to the collector
	return r.conclude(r.run(d.Verify))
}
