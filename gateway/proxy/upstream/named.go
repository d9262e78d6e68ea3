package upstream

import (
	"context"
	"net/http"

	"authgate/gateway/wire/webdav"
)

// namedKey is the key of the resources that a request names in its context.
type namedKey struct{}

// WithNamed returns a context for a request that names resources besides its own. Each target
// gets them in the form that its own URLs have.
func WithNamed(ctx context.Context, named *webdav.Named) context.Context {
	return context.WithValue(ctx, namedKey{}, named)
}

// namedOf returns the resources that a request names, nil if there are none.
func namedOf(r *http.Request) *webdav.Named {
	if len(r.Header["Destination"]) == 0 && len(r.Header["If"]) == 0 {
		return nil
	}
	named, _ := r.Context().Value(namedKey{}).(*webdav.Named)
	return named
}

// Name makes h name resources as the first target knows them. host is that of the client's
// request.
func (u *Upstream) Name(named *webdav.Named, h http.Header, host string) {
	named.SetHeader(h, u.base(host))
}

// base is target.base for the first target.
func (u *Upstream) base(host string) string {
	t := u.targets[0]
	if t.host != "" {
		host = t.host
	}
	return t.base(host)
}

// base returns the prefix of URLs at the target, for requests with that Host.
func (t *target) base(host string) string {
	scheme := schemeHTTP
	if t.url.Scheme == schemeHTTPS {
		scheme = schemeHTTPS
	}
	return scheme + "://" + host + t.prefix
}
