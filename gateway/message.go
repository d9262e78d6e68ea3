package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"authgate/gateway/proxy/streams"
	"authgate/gateway/proxy/web"
	"authgate/gateway/wire/mcp"
	"authgate/policy"
)

// mostMessage is the size of the largest message for an MCP server, in bytes, on a route without max_body.
const mostMessage = 4 << 20

// takeMessage checks a request to an MCP server, and takes the message of a POST for the decision. The body of a
// request that needs a credential, and has none, is not looked at.
func (ex *exchange) takeMessage(id *policy.Identity, read func() (*mcp.Message, error)) (err error) {
	r := ex.Request
	ex.Canonical.Message = &policy.Message{}
	if id == nil && ex.route.rule.Decide(nil, &ex.Canonical).Outcome != policy.Allow {
		return nil // decide refuses it
	}
	ex.Identify(id) // for the log, if it ends here
	switch r.Method {
	case http.MethodPost:
	case http.MethodGet, http.MethodDelete, http.MethodOptions:
		return ex.checkEmptyBody()
	default:
		return &web.Error{
			Status: http.StatusMethodNotAllowed, Detail: "An MCP server takes GET, POST, DELETE and OPTIONS.",
			Allow: "GET, POST, DELETE, OPTIONS",
		}
	}
	if ex.message, err = read(); err != nil || ex.message == nil {
		return err
	}
	ex.Canonical.Message, ex.MessageID = &ex.message.Message, ex.message.ID
	return ex.message.CheckHeaders(r.Header)
}

// readMessage reads the message of a POST. The upstream gets the bytes that are read here.
func (ex *exchange) readMessage() (*mcp.Message, error) {
	if !hasJSON(ex.Request.Header) {
		return nil, web.UnsupportedMedia("application/json in UTF-8, without Content-Encoding")
	}
	if err := ex.ReadWhole(&ex.body, cmp.Or(ex.route.config.MaxBody, mostMessage)); err != nil {
		return nil, err
	}
	return mcp.Read(ex.body.Bytes())
}

// lateMessage is the age of a request at which its login may have ended since it was judged.
const lateMessage = 500 * time.Millisecond

// checkLate judges a request to an MCP server anew if its message took long to come: a client could begin requests,
// and send their messages when its login has ended.
func (ex *exchange) checkLate() error {
	if ex.message == nil || ex.gateway.service.Now().Sub(ex.Start) < lateMessage {
		return nil
	}
	err := ex.Check(ex.Request.Context())
	if ended, ok := errors.AsType[*streams.Ended](err); ok {
		ex.Reason = ended.Reason
		ex.rejected(err)
		if refusal, ok := errors.AsType[*web.Error](err); ok && refusal.Status == http.StatusForbidden {
			ex.Audit("denied", slog.String("reason", ended.Reason))
		}
	}
	return err
}

// checkEmptyBody refuses a body where no message can be.
func (ex *exchange) checkEmptyBody() error {
	if err := mcp.CheckRepeated(ex.Request.Header, nil); err != nil {
		return err
	}
	err := ex.ReadWhole(&ex.body, 0)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return web.BadRequest("Only a POST may have a body here.", tooLarge)
	}
	return err
}

// hasJSON reports whether a body is JSON in UTF-8, as it is.
func hasJSON(h http.Header) bool {
	types := h["Content-Type"]
	if len(types) != 1 || len(h["Content-Encoding"]) > 0 {
		return false
	}
	media, params, _ := strings.Cut(strings.ToLower(types[0]), ";")
	switch strings.Trim(params, "; \t") {
	case "", "charset=utf-8", `charset="utf-8"`:
		return strings.Trim(media, " \t") == web.TypeJSON
	}
	return false
}

// aboutMessage returns the refusal of a decision as an answer to the message, if there is one that can be answered.
// lacks is the refusal of a token that lacks scopes, nil if they are not the cause.
func (ex *exchange) aboutMessage(id *policy.Identity, lacks error) error {
	m := ex.message
	if m == nil || m.ID == nil {
		return lacks
	}
	kind, name := m.Subject()
	text := "The " + kind + ` "` + web.Shown(name) + `" is not allowed.`
	if missing, ok := errors.AsType[*web.Error](lacks); ok {
		missing.RPC = &mcp.Error{Code: http.StatusForbidden, ID: m.ID, Text: text + " " + missing.Detail}
		return lacks
	}
	if !ex.route.rule.RefusesMessage(id, &ex.Canonical) {
		return nil
	}
	// Some clients end the session at a 4xx.
	return &web.Error{
		Status: http.StatusOK, Detail: text, Cause: errors.New(ex.Reason),
		RPC: &mcp.Error{Code: http.StatusForbidden, ID: m.ID, Text: text},
	}
}

// noMessage is the refusal of a proxy that asks about a request whose body only the gateway itself could read.
func noMessage() error {
	return &web.Error{
		Status: http.StatusForbidden, Detail: "The gateway must forward requests to this application itself.",
		Cause: errors.New("the route has mcp: true, and a proxy that asks does not tell the message; " +
			"send the requests to the gateway"),
	}
}
