package peer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/wire/headername"
	"authgate/policy"
)

// Original is a request that a proxy asks about, as the proxy describes it.
type Original struct {
	Method string // a token (RFC 9110, section 9.1)
	Secure bool   // it came over https
	Host   string // as the client wrote it; not checked
	Target string // the path and the query, byte for byte; not checked

	// AuthRequest reports whether the description has the form of nginx, whose
	// auth_request knows no redirect.
	AuthRequest bool
	// WebSocket reports whether the request asks for a WebSocket. Proxies
	// remove Upgrade, because it belongs to one connection.
	WebSocket bool
}

// The headers that describe a request: those of Traefik and Caddy, then those of
// nginx.
const (
	forwardedMethod = "X-Forwarded-Method"
	forwardedProto  = "X-Forwarded-Proto"
	forwardedHost   = "X-Forwarded-Host"
	forwardedURI    = "X-Forwarded-Uri"
	originalMethod  = "X-Original-Method"
	originalURL     = "X-Original-Url"
)

// description is the values of the headers that describe a request. A value that is
// there is not empty.
type description struct{ method, proto, host, uri, originalMethod, originalURL string }

// part returns the place of the value of a header, or nil for all other headers.
func (d *description) part(name string) *string {
	switch name {
	case forwardedMethod:
		return &d.method
	case forwardedProto:
		return &d.proto
	case forwardedHost:
		return &d.host
	case forwardedURI:
		return &d.uri
	case originalMethod:
		return &d.originalMethod
	case originalURL:
		return &d.originalURL
	}
	return nil
}

// ReadOriginal returns the request that the header describes. It returns an
// error unless each part is there once, and in one meaning: a second spelling of
// a name may come from the client, and another program could believe that one.
func ReadOriginal(h http.Header) (Original, error) {
	d, err := describe(h)
	if err != nil {
		return Original{}, err
	}
	var o Original
	switch {
	case d.originalMethod != "" || d.originalURL != "":
		o, err = d.nginx()
	default:
		o, err = d.forwarded()
	}
	if err != nil {
		return Original{}, err
	}
	if !httpguts.ValidHeaderFieldName(o.Method) { // the same characters
		return Original{}, errors.New("the method of the original request is not a token")
	}
	o.WebSocket = o.WebSocket || asksForWebSocket(h)
	return o, nil
}

// ReadExternal returns the request that a question repeats, as ExternalAuth of the Gateway API
// and ext_authz of Envoy ask: with its method, its host, and its target behind the path of
// the question. The scheme alone is in a header. Others that describe a request must agree.
func ReadExternal(r *http.Request, target string) (Original, error) {
	d, err := describe(r.Header)
	switch {
	case err != nil:
		return Original{}, err
	case d.proto == "":
		return Original{}, fmt.Errorf("the header %s is missing", forwardedProto)
	case d.originalMethod != "" || d.originalURL != "":
		return Original{}, errors.New("the headers X-Original- describe a request, and the path does")
	}
	o := Original{Method: r.Method, Host: r.Host, Target: target}
	if o.Secure, o.WebSocket, err = scheme(d.proto); err != nil {
		return Original{}, err
	}
	o.WebSocket = o.WebSocket || asksForWebSocket(r.Header)
	return o, d.agree(o)
}

// describe reads each header that describes a request.
func describe(h http.Header) (d description, err error) {
	for name, values := range h {
		// Fold keeps the length and the first letter.
		if len(name) < len(originalURL) || len(name) > len(forwardedMethod) || name[0] != 'X' && name[0] != 'x' {
			continue
		}
		folded := headername.Fold(name)
		part := d.part(folded)
		if part == nil {
			continue
		}
		if *part != "" || len(values) != 1 || name != folded {
			return d, fmt.Errorf("the header %s comes more than once, or in another spelling", folded)
		}
		if values[0] == "" {
			return d, fmt.Errorf("the header %s is empty", folded)
		}
		*part = values[0]
	}
	return d, nil
}

// forwarded returns the request that all four X-Forwarded- headers describe.
func (d *description) forwarded() (Original, error) {
	for _, name := range []string{forwardedMethod, forwardedProto, forwardedHost, forwardedURI} {
		if *d.part(name) == "" {
			return Original{}, fmt.Errorf("the header %s is missing", name)
		}
	}
	o := Original{Method: d.method, Host: d.host, Target: d.uri}
	var err error
	o.Secure, o.WebSocket, err = scheme(d.proto)
	return o, err
}

// nginx returns the request that the X-Original- headers describe. Each
// X-Forwarded- header that is there too must agree.
func (d *description) nginx() (Original, error) {
	method, address := d.originalMethod, d.originalURL
	if method == "" || address == "" {
		return Original{}, errors.New("one of the headers X-Original-Method and X-Original-URL is missing")
	}
	name, rest, ok := strings.Cut(address, "://")
	slash := strings.IndexByte(rest, '/')
	if !ok || slash < 0 {
		return Original{}, errors.New("the header X-Original-URL is not a URL with a scheme, a host and a path")
	}
	o := Original{Method: method, Host: rest[:slash], Target: rest[slash:], AuthRequest: true}
	var err error
	if o.Secure, o.WebSocket, err = scheme(name); err != nil {
		return Original{}, err
	}
	return o, d.agree(o)
}

// agree returns an error if an X-Forwarded- header describes another request than
// o.
func (d *description) agree(o Original) error {
	differ := func(name string) error {
		return fmt.Errorf("the question and its header %s describe different requests", name)
	}
	if d.method != "" && d.method != o.Method {
		return differ(forwardedMethod)
	}
	if d.uri != "" && d.uri != o.Target {
		return differ(forwardedURI)
	}
	if d.proto != "" {
		if secure, _, err := scheme(d.proto); err != nil || secure != o.Secure {
			return differ(forwardedProto)
		}
	}
	if d.host != "" {
		host, err := policy.CanonicalHost(o.Host)
		canonical, otherErr := policy.CanonicalHost(d.host)
		if err != nil || otherErr != nil || canonical != host {
			return differ(forwardedHost)
		}
	}
	return nil
}

// scheme reads the name of a scheme. Some proxies name that of WebSockets.
func scheme(name string) (secure, webSocket bool, err error) {
	switch strings.ToLower(name) {
	case "https":
		return true, false, nil
	case "wss":
		return true, true, nil
	case "http":
		return false, false, nil
	case "ws":
		return false, true, nil
	}
	return false, false, errors.New("the scheme of the original request is not http or https")
}

// asksForWebSocket reports whether a request is the opening handshake of a
// WebSocket (RFC 6455, section 4.1). Scripts of browsers cannot set or leave out
// these headers.
func asksForWebSocket(h http.Header) bool {
	_, key := h["Sec-Websocket-Key"]
	_, version := h["Sec-Websocket-Version"]
	return key || version || strings.EqualFold(h.Get("Sec-Fetch-Mode"), "websocket")
}
