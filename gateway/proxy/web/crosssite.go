package web

import (
	"bytes"
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/pages"
	"authgate/gateway/store/seal"
)

// The header and the form field of the anti-CSRF token.
const (
	csrfHeader = "X-CSRF-Token"
	CSRFField  = "csrf_token"
)

// CrossSite refuses requests that another site must not make. A browser sends cookies by itself, on
// behalf of any site. The browser says which site makes a request. From a client that does not,
// CrossSite can demand a token that no other site knows.
type CrossSite struct {
	site         *Site
	home, others *http.CrossOriginProtection // of the host of public_url, and of the others
	key          *seal.Box                   // makes tokens; nil if none are demanded
}

// NewCrossSite returns the protection of a site. The origin that may do
// everything is the one that a request is for. A proxy may leave the port out
// of Host, so public_url counts at its own host, and only there. It demands
// tokens if the configuration does.
func NewCrossSite(site *Site, cfg *config.Config) (c *CrossSite, err error) {
	c = &CrossSite{site: site, home: http.NewCrossOriginProtection(), others: http.NewCrossOriginProtection()}
	if err := c.home.AddTrustedOrigin(site.PublicURL); err != nil {
		return nil, fmt.Errorf("public_url: %w", err)
	}
	if !cfg.Session.CSRFToken {
		return c, nil
	}
	if c.key, err = seal.ForStore(cfg.Store.EncryptionKey.Reveal(), cfg.DataDir); err != nil {
		return nil, err // without a key, c would demand no tokens
	}
	return c, nil
}

// CheckOrigin refuses a state change or a WebSocket that another site makes the
// browser ask for (Origin, Fetch Metadata).
func (c *CrossSite) CheckOrigin(ex *Exchange) error {
	r := http.Request{Method: ex.Request.Method, Header: ex.Request.Header, Host: ex.Peer.Host, URL: ex.Request.URL}
	if Upgrade(r.Header) != "" {
		r.Method = http.MethodPost // a WebSocket begins with a GET and lets its client do anything
	}
	protection := c.others
	if c.site.AtHome(&ex.Received) {
		protection = c.home
	}
	if err := protection.Check(&r); err != nil {
		return refuseOtherSite(ex, err)
	}
	// Check compares hosts alone, and over http a host proves nothing.
	if changesState(r.Method) && r.Header.Get("Sec-Fetch-Site") == "" &&
		strings.HasPrefix(r.Header.Get("Origin"), "http://") {
		return refuseOtherSite(ex, errors.New("the Origin is not https"))
	}
	return nil
}

// changesState reports whether requests with the method may change something
// (RFC 9110, section 9.2.1).
func changesState(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return true
}

func refuseOtherSite(ex *Exchange, err error) error {
	ex.Reason = err.Error()
	ex.Audit("denied", slog.Bool("cross_site", true), slog.String("reason", ex.Reason))
	return &Error{Status: http.StatusForbidden, Detail: "Another site may not do this on your behalf.", Cause: err,
		Problem: pages.ProblemOtherSite}
}

// NeedsToken reports whether the request must carry the anti-CSRF token: it
// changes something, and does not say which site makes it.
func (c *CrossSite) NeedsToken(ex *Exchange) bool {
	if c.key == nil {
		return false
	}
	h := ex.Request.Header
	if !changesState(ex.Canonical.Method) && Upgrade(h) == "" {
		return false
	}
	return h.Get("Sec-Fetch-Site") == "" && h.Get("Origin") == ""
}

// Token returns the token of a login at the host of the request, which cannot be
// made without the key, or from that of another host. It is empty if no tokens
// are demanded, or there is no login.
func (c *CrossSite) Token(ex *Exchange, login string) string {
	if c.key == nil || login == "" {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(c.key.MAC("csrf:" + ex.Canonical.Host + ":" + login))
}

// Tokens reports whether tokens are demanded.
func (c *CrossSite) Tokens() bool { return c.key != nil }

// CheckToken refuses a request that does not carry the token of one of the
// logins.
func (c *CrossSite) CheckToken(ex *Exchange, logins ...string) error {
	presented, err := tokenOf(ex)
	if err != nil {
		return err
	}
	for _, login := range logins {
		if login != "" && hmac.Equal([]byte(presented), []byte(c.Token(ex, login))) {
			return nil
		}
	}
	return refuseOtherSite(ex, errors.New("neither Origin nor Sec-Fetch-Site tells the site, and "+csrfHeader+" is "+
		"missing or not that of the login"))
}

// tokenOf returns the token of the request: from the header, else from
// the field of a form. The body of the form is put back for the upstream.
func tokenOf(ex *Exchange) (string, error) {
	if token := ex.Request.Header.Get(csrfHeader); token != "" {
		return token, nil
	}
	if length := ex.Request.ContentLength; ex.MediaType() != TypeForm || length <= 0 || length > MaxBody {
		return "", nil
	}
	if ex.Body == nil {
		if err := ex.ReadBody(); err != nil {
			return "", err
		}
		ex.Request.Body = io.NopCloser(bytes.NewReader(ex.Body))
	}
	values, err := url.ParseQuery(string(ex.Body))
	if err != nil || len(values[CSRFField]) != 1 {
		return "", nil
	}
	return values.Get(CSRFField), nil
}

// Upgrade returns the protocols that a message asks to switch to, "" if none. Several
// lines are one list.
func Upgrade(h http.Header) string {
	if !httpguts.HeaderValuesContainsToken(h["Connection"], "Upgrade") {
		return ""
	}
	return strings.Join(h["Upgrade"], ", ")
}
