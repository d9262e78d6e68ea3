package forward

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"

	"authgate/gateway/proxy/web"
)

// keepsUpgrade reports whether q asks for a switch of protocols that may reach the upstream:
// the opening handshake of a WebSocket, or a protocol that the route allows. Another
// protocol would carry requests that no route decides on, and an upstream may read the body
// of a request as the first bytes after the switch.
func (r *Route) keepsUpgrade(q *http.Request) bool {
	protocols := web.Upgrade(q.Header)
	return protocols != "" && !r.config.MCP && (opensWebSocket(q, protocols) || r.upgrades(q, protocols))
}

// isWebSocket reports whether the connection of a request becomes a WebSocket, if any.
func isWebSocket(r *http.Request) bool { return opensWebSocket(r, web.Upgrade(r.Header)) }

// opensWebSocket reports whether r is a whole opening handshake (RFC 6455, section 4.1).
func opensWebSocket(r *http.Request, protocols string) bool {
	h := r.Header
	if r.Method != http.MethodGet || !r.ProtoAtLeast(1, 1) || r.ContentLength != 0 ||
		!strings.EqualFold(protocols, "websocket") {
		return false
	}
	keys, versions := h["Sec-Websocket-Key"], h["Sec-Websocket-Version"]
	if len(keys) != 1 || len(versions) != 1 || strings.TrimSpace(versions[0]) != "13" {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(keys[0]))
	return err == nil && len(key) == 16
}

// upgrades reports whether the route allows a switch to each of the protocols that q
// lists. Such a request is a GET or POST, and has no body.
func (r *Route) upgrades(q *http.Request, protocols string) bool {
	if q.Method != http.MethodGet && q.Method != http.MethodPost || !q.ProtoAtLeast(1, 1) || q.ContentLength != 0 {
		return false
	}
	for protocol := range strings.SplitSeq(protocols, ",") {
		protocol = strings.TrimSpace(protocol)
		isThis := func(allowed string) bool { return strings.EqualFold(allowed, protocol) }
		if !slices.ContainsFunc(r.config.Upgrade, isThis) {
			return false
		}
	}
	return true
}

// switchProtocols prepares a response that switches protocols for httputil.ReverseProxy, which sends
// its header and its reason phrase as they are. Nothing of them is about the connection but the switch.
// It refuses a protocol that was not asked for.
func switchProtocols(sent *http.Request, response *http.Response) error {
	chosen := web.Upgrade(response.Header)
	chooseUpgrade(sent, chosen)
	if chosen == "" || !strings.EqualFold(chosen, web.Upgrade(sent.Header)) {
		return errors.New("the response switches to a protocol that the request does not ask for")
	}
	dropConnection(response.Header)
	response.Header["Connection"], response.Header["Upgrade"] = []string{"Upgrade"}, []string{chosen}
	response.Status, response.ProtoMajor, response.ProtoMinor, response.Close = "", 1, 1, false
	return nil
}

// chooseUpgrade leaves in the Upgrade of a request the protocol that the upstream has
// chosen. httputil.ReverseProxy knows only requests with one protocol.
func chooseUpgrade(sent *http.Request, chosen string) {
	for protocol := range strings.SplitSeq(web.Upgrade(sent.Header), ",") {
		if strings.EqualFold(strings.TrimSpace(protocol), chosen) {
			sent.Header.Set("Upgrade", chosen)
			return
		}
	}
}

// spellHandshake moves the fields of an opening handshake, or of the answer to one, to a
// header in the spelling of RFC 6455, section 11.3. Names have no case, but some devices compare them as they are.
func spellHandshake(to, from http.Header) {
	for name, values := range from {
		if rest, ok := strings.CutPrefix(name, "Sec-Websocket-"); ok {
			delete(from, name)
			to["Sec-WebSocket-"+rest] = values
		}
	}
}
