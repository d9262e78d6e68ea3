package gateway

import (
	"errors"
	"net/http"
	"strings"

	"authgate/gateway/config"
	"authgate/gateway/peer"
)

// hosts are the hosts that the gateway serves. They do not change once made.
type hosts struct {
	names   map[string]bool
	parents map[string]bool // of wildcards
	any     bool            // routes without a host serve every host
}

func newHosts(cfg *config.Config) hosts {
	h := hosts{names: map[string]bool{}, parents: map[string]bool{}, any: cfg.Listen.AnyHost}
	for _, host := range cfg.Hosts() {
		if parent, wildcard := strings.CutPrefix(host, "*."); wildcard {
			h.parents[parent] = true
		} else {
			h.names[host] = true
		}
	}
	return h
}

// has reports whether a canonical host is one of the gateway's.
func (h *hosts) has(host string) bool {
	if h.names[host] {
		return true
	}
	_, parent, _ := strings.Cut(host, ".")
	return h.parents[parent]
}

// errForeignHost is for operators: what the client asked for is in the log.
var errForeignHost = errors.New("the host is not one of the gateway's: that of public_url, those in routes, tls.domains")

// checkHost refuses a request for a host that is not the gateway's (RFC 9110,
// section 15.5.20). Balancers that look whether the gateway is well ask for
// the address that they connect to; that one is accepted.
func (ex *exchange) checkHost(host string) error {
	if ex.st.hosts.has(host) {
		return nil
	}
	ex.foreign = true
	if ex.st.hosts.any || peer.IsLocalAddress(ex.r, host) {
		return nil
	}
	return &httpError{
		status: http.StatusMisdirectedRequest,
		detail: "This gateway does not serve the host of the request. If it should, add a route for the host, or let the proxy in front pass on Host.",
		cause:  errForeignHost,
	}
}

// atOwnHost is a path of the gateway as a redirect names it: at the host of
// the request or, if that is not one of the gateway's, at public_url. People
// sign in at the gateway's own hosts only: a cookie that is set at another
// host is at the mercy of the owner of that name.
func (ex *exchange) atOwnHost(path string) string {
	if ex.foreign {
		return ex.st.config.PublicURL.String() + path
	}
	return path
}

// signInElsewhere leads a person who wants to sign in at a host that is not the
// gateway's to public_url.
func (ex *exchange) signInElsewhere() error {
	ex.redirect(http.StatusFound, ex.atOwnHost(ex.req.Path.Raw+query(ex.req.Path)))
	return nil
}

// secureOrigin is where a request by plain HTTP for host is redirected to: the
// same host if it is a name of the gateway's, with the port of public_url, and
// else public_url. Addresses are the gateway's so that balancers can ask for
// them; users are led to the name that they know.
func (st *state) secureOrigin(host string) string {
	if !st.hosts.has(host) || peer.ParseAddr(host).IsValid() {
		return st.config.PublicURL.String()
	}
	if port := st.public.Port(); port != "" {
		host += ":" + port
	}
	return "https://" + host
}
