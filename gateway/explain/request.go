package explain

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/config"
	"authgate/gateway/wire/mcp"
	"authgate/policy"
)

// HTTP returns the request that a server with a configuration would receive. With tls.mode off it comes
// through the first of the trusted proxies. The error is a *Mistake.
func (d *Request) HTTP(cfg *config.Config) (*http.Request, error) {
	secure, host, target, err := splitURL(d.URL, cfg.PublicURL.Host)
	if err != nil {
		return nil, err
	}
	off := cfg.TLS.Off()
	switch {
	case d.Method == "":
		return nil, mistake("the method is empty")
	case !secure && !off:
		return nil, mistake("the URL is not https: the gateway serves routes over https alone, " +
			"and redirects plain HTTP")
	}
	from := d.From
	if !from.IsValid() {
		from = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	from = from.Unmap().WithZone("")
	header, err := describedHeader(d.Header, off, http.CanonicalHeaderKey(cfg.Token.Header))
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: d.Method, Host: host, RequestURI: target, URL: &url.URL{}, Header: header, Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: netip.AddrPortFrom(from, 0).String(),
	}
	scheme := "https"
	if !secure {
		scheme = "http"
	}
	if trusted := cfg.Listen.TrustedProxies; off && len(trusted) > 0 {
		r.RemoteAddr = netip.AddrPortFrom(trusted[0].Addr(), 0).String()
		r.Header.Set("X-Forwarded-For", from.String())
		r.Header.Set("X-Forwarded-Proto", scheme)
		r.Header.Set("X-Forwarded-Host", host)
		return r, nil
	}
	r.TLS = &tls.ConnectionState{ServerName: opened(host)}
	return r, nil
}

// Message returns the described message, nil if there is none. posts tells that the request is a POST to an MCP
// server. The error is a *Mistake, or an *mcp.Error: that of the message.
func (d *Request) Message(posts bool) (*mcp.Message, error) {
	switch {
	case d.MCPMethod == "" && d.MCPName == "":
		return nil, nil
	case !posts:
		return nil, mistake("mcp_method and mcp_name describe the message of a POST to a route with mcp: true, " +
			"and this is none")
	case d.MCPMethod == "":
		return nil, mistake("mcp_name needs mcp_method, the method of the message, like tools/call")
	}
	params := map[string]any{}
	if name := d.MCPName; name != "" {
		params = map[string]any{
			"name": name, "uri": name, "notifications": map[string]any{"resourceSubscriptions": []string{name}},
		}
	}
	message := map[string]any{"jsonrpc": "2.0", "id": 1, "method": d.MCPMethod, "params": params}
	if strings.HasPrefix(d.MCPMethod, "notifications/") {
		delete(message, "id") // it has no answer
	}
	body, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	return mcp.Read(body)
}

// opened returns the host for which a client opens the connection of a request.
func opened(host string) string {
	if canonical, err := policy.CanonicalHost(host); err == nil {
		return canonical
	}
	return host
}

// describedHeader returns the header of a described request. off tells that
// tls.mode is off, so that the proxy describes the client, and token is token.header.
func describedHeader(given http.Header, off bool, token string) (http.Header, error) {
	h := http.Header{}
	for name, values := range given {
		canonical := http.CanonicalHeaderKey(name)
		if token != "" && canonical == token {
			return nil, provesCaller(canonical)
		}
		switch canonical {
		case "Authorization", "Cookie", "Proxy-Authorization":
			return nil, provesCaller(canonical)
		case "Host":
			return nil, mistake("the header Host is in the URL; give an https URL with that host")
		case "Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding":
			return nil, mistake("the header %s is about the connection and the body, which a description does not "+
				"have; for a WebSocket, Upgrade is enough", canonical)
		case "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto":
			if off {
				return nil, mistake("the header %s is the proxy's, because tls.mode is off; "+
					"describe the client by its address and the URL", canonical)
			}
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return nil, mistake("%q is not a header field", name+": "+value)
			}
			h.Add(name, strings.TrimSpace(value))
		}
	}
	describeUpgrade(h)
	return h, nil
}

// provesCaller is the mistake of a header that holds a credential.
func provesCaller(name string) error {
	return mistake("the header %s can prove who makes the request; "+
		"describe that by a user, or by the properties of one", name)
}

// describeUpgrade completes a described request for a switch of protocols. The key is
// that of RFC 6455, section 1.3.
func describeUpgrade(h http.Header) {
	protocol := h.Get("Upgrade")
	if protocol == "" {
		return
	}
	h.Set("Connection", "Upgrade")
	if strings.EqualFold(protocol, "websocket") && h.Get("Sec-Websocket-Key") == "" {
		h.Set("Sec-Websocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		h.Set("Sec-Websocket-Version", "13")
	}
}

// splitURL cuts a URL, or a path at home, into its parts without a change of their bytes.
func splitURL(raw, home string) (secure bool, host, target string, err error) {
	if strings.HasPrefix(raw, "/") {
		return true, home, raw, nil
	}
	scheme, host, target, ok := policy.CutURL(raw)
	secure = strings.EqualFold(scheme, "https")
	if !ok || !secure && !strings.EqualFold(scheme, "http") {
		return false, "", "", mistake("the URL %q is neither an https URL nor a path: "+
			"expected https://HOST/PATH or /PATH", raw)
	}
	if host == "" || strings.Contains(host, "@") {
		return false, "", "", mistake("the URL %q has no host, or has a user before it", raw)
	}
	return secure, host, target, nil
}
