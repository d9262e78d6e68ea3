package world

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
)

// Surfer is a browser at an address, which finds all hosts with names at one gateway or
// proxy. It follows redirects, and its requests have the headers that a test wants.
type Surfer struct {
	*http.Client
	T testing.TB
}

// Surf returns a browser without cookies at the address from, which connects to the
// address at and trusts roots.
func Surf(t testing.TB, from, at string, roots *x509.CertPool) Surfer {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "127.0.0.1:") {
				return dialer.DialContext(ctx, network, address) // a provider
			}
			return dialer.DialContext(ctx, network, at)
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return Surfer{&http.Client{Transport: transport, Jar: Must(cookiejar.New(nil))(t), Timeout: Patience}, t}
}

// Visit sends a request, and returns the last answer and its address.
func (v Surfer) Visit(method, address, body string, headers ...string) (Answer, *url.URL) {
	v.T.Helper()
	q := Must(http.NewRequest(method, address, strings.NewReader(body)))(v.T)
	for i := 0; i+1 < len(headers); i += 2 {
		q.Header.Add(headers[i], headers[i+1])
	}
	r := Must(v.Do(q))(v.T)
	defer r.Body.Close()
	content := Must(io.ReadAll(r.Body))(v.T)
	return Answer{Status: r.StatusCode, Header: r.Header, Body: string(content)}, r.Request.URL
}

// SignIn visits a page, and signs in on the page to which that leads.
func (v Surfer) SignIn(address, user string) (Answer, *url.URL) {
	v.T.Helper()
	page, at := v.Visit("GET", address, "", "Accept", AcceptsPage)
	f, _ := (&Browser{T: v.T, Page: page}).Form()
	if page.Status != http.StatusOK || !f.Fields.Has("username") {
		v.T.Fatalf("%s leads to %d at %s without a form:\n%s", address, page.Status, at, page.Body)
	}
	f.Fields.Set("username", user)
	f.Fields.Set("password", Passwords[user])
	return v.Visit("POST", Must(at.Parse(f.Action))(v.T).String(), f.Fields.Encode(),
		"Content-Type", TypeForm, "Accept", AcceptsPage, "Origin", at.Scheme+"://"+at.Host,
		"Sec-Fetch-Site", "same-origin")
}
