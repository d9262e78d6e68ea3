package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/pages"
	"authgate/gateway/wire/cors"
	"authgate/gateway/wire/mcp"
)

// problem is the body of an error (RFC 9457).
type problem struct {
	Title   string   `json:"title"`
	Status  int      `json:"status"`
	Detail  string   `json:"detail"`
	MaxAge  int      `json:"max_age,omitempty"` // seconds
	Factors []string `json:"factors,omitempty"`
}

// ErrAnswered is the error of a step that has answered the request: no other step follows. It is
// not for Fail.
var ErrAnswered = errors.New("the request is answered")

// Answered returns ErrAnswered in the place of nil, for a step that answers unless it fails.
func Answered(err error) error {
	if err == nil {
		return ErrAnswered
	}
	return err
}

// Fail answers the request with the answer of toHTTP to err. It returns true if the answer has
// begun already, or the client has left: the caller must then abort the request, so that the answer
// does not seem whole.
func (ex *Exchange) Fail(err error) (abort bool) {
	e := toHTTP(ex.Store.Context, err)
	if e.Detail == auth.DetailNotSignedIn && ex.SessionEnded() {
		e.Detail = auth.DetailSessionEnded
	}
	err = nameCookie(ex, e, err)
	ex.Failed(err, e.Status)
	if e.Status == statusClientGone && ex.Status == 0 {
		ex.Status = e.Status
	}
	if ex.Status != 0 {
		return true
	}
	h := ex.Header()
	if e.RetryAfter > 0 {
		SetRetryAfter(h, e.RetryAfter)
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	if e.Status == http.StatusUnauthorized {
		ex.Stale.Clear(ex)
	}
	asks := e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden
	if c, ok := errors.AsType[*challenged](err); ok && asks {
		for _, challenge := range c.challenges {
			if challenge.IsBasic() && ex.ByScript() {
				continue // the browser would ask for a password in the middle of a page
			}
			h.Add("WWW-Authenticate", string(challenge))
		}
	}
	ex.writeError(e)
	return false
}

// SetRetryAfter tells the client how long to wait (RFC 9110, section 10.2.3).
func SetRetryAfter(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
}

// oauthError is the body of an error of OAuth (RFC 6749, section 5.2).
type oauthError struct {
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
}

func (ex *Exchange) writeError(e *Error) {
	if ex.OAuth {
		ex.JSON(TypeJSON, e.Status, oauthError{oauthCode(e), e.Detail})
		return
	}
	if ex.MCP && e.RPC == nil && (e.Status == http.StatusBadRequest || e.Status == http.StatusRequestEntityTooLarge) {
		e.RPC = &mcp.Error{Code: mcp.CodeInvalid, ID: ex.MessageID, Text: e.Detail}
	}
	if e.RPC != nil {
		ex.JSON(TypeJSON, e.Status, e.RPC)
		return
	}
	switch media := Negotiate(ex.Request); media {
	case TypeHTML:
		ex.Page(e.Status, func(p *pages.Pages, w io.Writer) error { return p.Error(w, newErrorPage(ex, e)) })
	default:
		ex.JSON(media, e.Status, problem{
			Title: http.StatusText(e.Status), Status: e.Status, Detail: e.Detail, MaxAge: int(e.MaxAge.Seconds()),
			Factors: e.Factors,
		})
	}
}

// JSON answers with body as media.
func (ex *Exchange) JSON(media string, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil { // a type of the gateway's that cannot be encoded
		encoded, status = []byte(`{"title":"Internal Server Error","status":500,"detail":"The gateway failed."}`), 500
		ex.err = err
	}
	ex.OwnHeader(media)
	ex.tellRefusal(status)
	ex.Header().Set("Content-Length", strconv.Itoa(len(encoded)+1))
	ex.WriteHeader(status)
	_, _ = ex.Write(append(encoded, '\n')) // the client is gone if this fails
}

// Page answers with the page that render writes, in the language of the user. Its length comes
// first, so that it can be whole before the request's body is; see answerFirst.
func (ex *Exchange) Page(status int, render func(*pages.Pages, io.Writer) error) {
	p := ex.pages()
	var page bytes.Buffer
	if err := render(p, &page); err != nil { // a fault of the gateway's
		page.Reset()
		status, ex.err = http.StatusInternalServerError, errors.Join(ex.err, fmt.Errorf("rendering a page: %w", err))
	}
	ex.OwnHeader(TypeHTML + "; charset=utf-8")
	ex.tellRefusal(status)
	h := ex.Header()
	h.Set("Content-Language", p.Language())
	h.Add("Vary", "Accept-Language")
	h.Add("Vary", "Cookie")
	h.Set("Content-Security-Policy", p.ContentSecurityPolicy(page.Bytes(), ex.formTargets()))
	h.Set("Content-Length", strconv.Itoa(page.Len()))
	ex.WriteHeader(status)
	_, _ = ex.Write(page.Bytes()) // the client is gone if this fails
}

// tellRefusal makes a 401 say that it is the gateway's, and where users sign in. Scripts that may
// read a 401 or 403 may read its challenge.
func (ex *Exchange) tellRefusal(status int) {
	h := ex.Header()
	switch {
	case status == http.StatusUnauthorized && ex.TellsSignIn:
		h.Set(SignInHeader, ex.site.Origin(ex.Canonical.Host)+ex.site.Own("signin"))
		cors.Expose(h, "WWW-Authenticate", SignInHeader)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		cors.Expose(h, "WWW-Authenticate")
	}
}

// formTargets returns the origins to which forms on a page of the exchange may lead.
func (ex *Exchange) formTargets() string {
	if ex.LeadsAnywhere {
		return pages.Anywhere
	}
	return ex.site.FormTargets(ex.Canonical.Host)
}

// Redirect answers with Location. The caller makes sure that the location is
// one that it may lead to.
func (ex *Exchange) Redirect(status int, location string) {
	ex.LimitBody()
	ex.originFields()
	h := ex.Header()
	h.Set(openerPolicy, "same-origin")
	h.Set("Location", location)
	h.Set("Content-Length", "0")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Request-Id", ex.ID)
	ex.CORS.SetFields(ex.Request.Header, h)
	ex.WriteHeader(status)
}

// Preflight answers a CORS preflight for a route (Fetch standard, section 3.2.2).
// Another origin than those of the policy is an error.
func (ex *Exchange) Preflight(policy *cors.Policy) error {
	h := ex.Header()
	if !policy.Preflight(ex.Request.Header, h) {
		return &Error{Status: http.StatusForbidden, Detail: "Scripts of this origin may not send requests here.",
			Cause: errors.New("the origin of the preflight is not in cors.origins")}
	}
	ex.LimitBody()
	ex.originFields()
	h.Set("X-Request-Id", ex.ID)
	h.Set("Cache-Control", "no-store") // Access-Control-Max-Age is for the browser alone
	ex.Decision = DecisionAllow
	ex.WriteHeader(http.StatusNoContent)
	return nil
}

// openerPolicy is the header that takes a page of the gateway, and the pages after it, from the
// window that opened it: that could close it, or lead it elsewhere, in the middle of a sign-in.
const openerPolicy = "Cross-Origin-Opener-Policy"

// OwnHeader sets the header of an answer of the gateway's own.
func (ex *Exchange) OwnHeader(media string) {
	ex.LimitBody()
	ex.originFields()
	h := ex.Header()
	h.Set("Content-Type", media)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set(openerPolicy, "same-origin")
	if h.Get("Referrer-Policy") == "" {
		h.Set("Referrer-Policy", "same-origin")
	}
	h.Set("X-Request-Id", ex.ID)
	ex.CORS.SetFields(ex.Request.Header, h)
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
}

// originFields sets the fields that apply to the whole origin: browsers use https
// alone (RFC 6797, section 7.1), and HTTP/3 (RFC 7838). They ignore them over
// cleartext.
func (ex *Exchange) originFields() {
	if ex.Cleartext {
		return
	}
	if ex.site.HSTS != "" {
		ex.Header().Set("Strict-Transport-Security", ex.site.HSTS)
	}
	if ex.site.AltSvc != "" {
		ex.Header().Set("Alt-Svc", ex.site.AltSvc)
	}
}
