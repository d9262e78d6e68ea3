package gateway

import (
	"errors"
	"maps"
	"net/http"
	"strings"

	"authgate/gateway/identity/auth"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/conn"
	"authgate/policy"
)

// checkFraming refuses a request that ends elsewhere for other programs. They could take
// a part of it for a request of its own, which the gateway would never see.
func checkFraming(ex *web.Exchange) error {
	if !conn.TwoFramings(ex.Request) {
		return nil
	}
	ex.Header().Set("Connection", "close")
	return &web.Error{
		Status: http.StatusBadRequest, Detail: "The request has a Content-Length beside a Transfer-Encoding, " +
			"or the latter in HTTP/1.0.",
		Cause: errors.New("a body with two framings (RFC 9112, section 6.1)"),
	}
}

// checkExpect refuses a request that expects anything but 100-continue (RFC 9110, section 10.1.1): programs
// differ in their treatment of another expectation beside it. In HTTP/1.0, which has no 1xx, it means
// nothing.
func checkExpect(ex *web.Exchange) error {
	h := ex.Request.Header
	expected := h["Expect"]
	switch {
	case len(expected) == 0:
		return nil
	case !ex.Request.ProtoAtLeast(1, 1):
		delete(h, "Expect")
		return nil
	case len(expected) == 1 && strings.EqualFold(expected[0], "100-continue"):
		return nil
	}
	return &web.Error{
		Status: http.StatusExpectationFailed, Detail: "The request expects something other than 100-continue.",
		Cause: errors.New("an unknown expectation (RFC 9110, section 10.1.1)"),
	}
}

// checkHostField refuses a request over HTTP/2 that names a host in Host beside another one in :authority.
// HTTP/1.1 has one of them, and http3 compares them itself.
func checkHostField(ex *web.Exchange) error {
	fields := ex.Request.Header["Host"]
	if len(fields) == 0 || len(fields) == 1 && strings.EqualFold(fields[0], ex.Request.Host) {
		return nil
	}
	return &web.Error{
		Status: http.StatusBadRequest, Detail: "The request names several hosts.",
		Cause: errors.New("the field Host is repeated, or differs from :authority (RFC 9113, section 8.3.1)"),
	}
}

// read makes the canonical request and reads the credentials, once. It refuses an ambiguous
// request, before a route is looked up.
func (ex *exchange) read() error {
	st := ex.state
	if ex.Request.Method == http.MethodConnect && ex.Request.ProtoMajor == 3 {
		return &web.Error{ // RFC 9220, section 3; quic-go announces extended CONNECT in any case
			Status: http.StatusNotImplemented,
			Detail: "There are no tunnels and no WebSockets over HTTP/3. Use HTTP/1.1.",
			Cause:  errors.New("CONNECT over HTTP/3"),
		}
	}
	host, hostErr := policy.CanonicalHost(ex.Peer.Host)
	path, err := st.site.ParseTarget(host, ex.Request.RequestURI)
	target := st.own.RepeatedTarget(ex.Request.RequestURI)
	if target != "" || err == nil && path.Decoded == st.own.Verify {
		if err := ex.TakeOriginal(target); err != nil {
			return err
		}
		// Again, because Peer and Request are now those of the original request.
		host, hostErr = policy.CanonicalHost(ex.Peer.Host)
		path, err = st.site.ParseTarget(host, ex.Request.RequestURI)
	}
	if st.config.TLS.Off() { // before what is wrong with the path, because it is wrong with every request
		if err := checkSecure(&ex.Exchange); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if hostErr != nil {
		return &web.Error{Status: http.StatusBadRequest, Detail: "The host of the request is malformed.",
			Cause: hostErr}
	}
	if err := st.site.CheckHost(&ex.Received, host); err != nil {
		return err
	}
	if err := st.site.CheckHandshake(&ex.Received, host); err != nil {
		return err
	}
	ex.Canonical = policy.Request{Method: ex.Request.Method, Host: host, Path: path, Client: ex.Peer.Client,
		Now: ex.gateway.storage.now()}
	return ex.readCredentials()
}

// checkSecure refuses a request that a proxy has not received over https. It tells operators the
// missing field.
func checkSecure(ex *web.Exchange) error {
	h := ex.Request.Header
	switch {
	case !ex.Peer.Trusted:
		return web.NotSecure("tls.mode is off, and the request does not come over https from a trusted proxy: " +
			"its address is not in listen.trusted_proxies")
	case ex.Peer.Proto == "https":
		return nil
	case len(h["X-Forwarded-Proto"]) == 0 && len(h["Forwarded"]) == 0:
		return web.NotSecure("tls.mode is off, and the trusted proxy does not say that the request came over https: " +
			"let it set X-Forwarded-Proto")
	}
	return web.NotSecure("tls.mode is off, and the trusted proxy says that the request came over http")
}

// readCredentials reads the credentials of the request.
func (ex *exchange) readCredentials() (err error) {
	st, host := ex.state, ex.Canonical.Host
	err = ex.Credentials.Read(ex.Request.Header, &st.site.Cookies.Names, ex.Peer.Client)
	if errors.Is(err, auth.ErrAmbiguous) {
		err = ex.withoutCookies(err)
	}
	if name := st.site.TokenHeader; name != "" && err == nil {
		err = ex.Credentials.ReadToken(ex.Request.Header[name])
	}
	ex.Credentials.Scope, ex.Credentials.Host = st.site.CookieScope(host), host
	if err == nil {
		ex.Credentials.Certificate, err = st.mechanisms.Presented(ex.Request, ex.Peer.Trusted)
	}
	return err
}

// withoutCookies reads the credentials of a request to an own endpoint that goes by no cookie,
// so that two of a name do no harm there. For any other request it returns err.
func (ex *exchange) withoutCookies(err error) error {
	st, path := ex.state, ex.Canonical.Path.Decoded
	switch path {
	case st.site.Own(web.TwinsPath), st.site.Own(web.LanguagePath):
		return nil // a form of the page that says so, which needs no credential
	}
	if own, _ := st.own.At(ex.Canonical.Host, path); own == nil || own.ReadsCookies() {
		return err
	}
	header := maps.Clone(ex.Request.Header)
	header.Del("Cookie")
	return ex.Credentials.Read(header, &st.site.Cookies.Names, ex.Peer.Client)
}
