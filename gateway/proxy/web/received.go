package web

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"authgate/gateway/wire/peer"
	"authgate/policy"
)

// MaxBody is how large a body own endpoints read, in bytes.
const MaxBody = 64 << 10

// Received is a request, read once. Everything goes by these values, so that the gateway forwards
// the request that it has decided on.
type Received struct {
	Request     *http.Request
	Peer        peer.Peer      // who is connected, and on whose behalf
	Canonical   policy.Request // what is decided on
	Body        []byte         // of a request to an own endpoint
	Cleartext   bool           // the request came by plain HTTP
	Foreign     bool           // the request is for a host that is not the gateway's
	Verify      bool           // a proxy asks about the request, and serves it itself
	AuthRequest bool           // the proxy asks as nginx does, whose auth_request knows no redirect
}

// Target is the path and the query of the request, byte for byte.
func (r *Received) Target() string { return r.Canonical.Path.Target() }

// Reads reports whether the request is a GET or HEAD.
func (r *Received) Reads() bool {
	return r.Canonical.Method == http.MethodGet || r.Canonical.Method == http.MethodHead
}

// PageLoad reports whether a browser asks for a page.
func (r *Received) PageLoad() bool {
	return r.Reads() && !r.ByScript() && Negotiate(r.Request) == TypeHTML
}

// ByScript reports whether a browser sends the request for a script or another part
// of a page: it says so (Fetch Metadata, X-Requested-With), or it is an older
// browser that does not ask for a page.
func (r *Received) ByScript() bool {
	h := r.Request.Header
	switch mode := h["Sec-Fetch-Mode"]; {
	case r.ByXHR():
		return true
	case len(mode) > 0:
		return mode[0] != "navigate"
	}
	return r.namesBrowser() && !strings.Contains(strings.ToLower(strings.Join(h["Accept"], ",")), TypeHTML)
}

// ByXHR reports whether a script says that it sends the request. A script that says
// it twice sends a list.
func (r *Received) ByXHR() bool {
	return httpguts.HeaderValuesContainsToken(r.Request.Header["X-Requested-With"], "XMLHttpRequest")
}

// Navigates reports whether a person goes to the place of the request, as far as the
// request tells: it is no HEAD, no part of a page, and not sent ahead of a click
// (Sec-Purpose of the Fetch standard, and its predecessors).
func (r *Received) Navigates() bool {
	h := r.Request.Header
	for _, name := range []string{"Purpose", "X-Purpose", "X-Moz"} {
		if h.Get(name) != "" {
			return false
		}
	}
	return len(h["Sec-Purpose"]) == 0 && r.Canonical.Method == http.MethodGet && !r.ByScript()
}

// FollowsLinks reports whether a browser sends the request, which may follow a link of
// another site. A program that says nothing about sites follows no such link.
func (r *Received) FollowsLinks() bool {
	return len(r.Request.Header["Sec-Fetch-Site"]) > 0 || r.namesBrowser()
}

// namesBrowser reports whether the client calls itself a browser, as they all do.
func (r *Received) namesBrowser() bool {
	return strings.HasPrefix(r.Request.Header.Get("User-Agent"), "Mozilla/")
}

// FromOtherSite reports whether another site led the browser here (Fetch Metadata).
// Browsers that do not tell count as led by nobody.
func (r *Received) FromOtherSite() bool {
	switch r.Request.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return false
	}
	return true
}

// FromElsewhere reports whether a page of another origin made the browser send the request, as far as
// Fetch Metadata or Origin tell.
func (r *Received) FromElsewhere() bool {
	h := r.Request.Header
	if h.Get("Sec-Fetch-Site") != "" || h.Get("Origin") == "" {
		return r.FromOtherSite()
	}
	return h.Get("Origin") != "https://"+r.Peer.Host
}

// WorkerScript reports whether a browser asks for the script of a service worker
// (Service Workers, section 4.3; Fetch Metadata).
func (r *Received) WorkerScript() bool {
	h := r.Request.Header
	return len(h["Service-Worker"]) > 0 || slices.Contains(h["Sec-Fetch-Dest"], "serviceworker")
}

// QueryValue returns a parameter of the query, "" unless there is one of the
// name.
func (r *Received) QueryValue(name string) string {
	values, err := url.ParseQuery(r.Canonical.Path.Query)
	if err != nil || len(values[name]) != 1 {
		return ""
	}
	return values[name][0]
}

// Query returns the parameters of the query. The error is a 400.
func (r *Received) Query() (url.Values, error) {
	values, err := url.ParseQuery(r.Canonical.Path.Query)
	if err != nil {
		return nil, &Error{Status: http.StatusBadRequest, Detail: "The query is malformed.", Cause: err}
	}
	return values, nil
}

// MediaType returns the Content-Type of the request without parameters, or ""
// if it cannot be read, or names a character set other than UTF-8.
func (r *Received) MediaType() string {
	media, params, err := mime.ParseMediaType(r.Request.Header.Get("Content-Type"))
	if charset := params["charset"]; err != nil || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return ""
	}
	return media
}

// LoggedPath returns the path as received, for the log, without the query. A target
// that was refused may hold a fragment, or be a whole URL with a password in
// it.
func (r *Received) LoggedPath() string {
	path := r.Canonical.Path.Raw
	if path == "" && strings.HasPrefix(r.Request.RequestURI, "/") {
		path = r.Request.RequestURI
		if end := strings.IndexAny(path, "?#"); end >= 0 {
			path = path[:end]
		}
	}
	return clip(path)
}

// ReadBody reads the whole body into Body, in bounded time. After an error the time limit stays,
// because the server reads the rest before it sends the answer.
func (ex *Exchange) ReadBody() error {
	if ex.Request.ContentLength == 0 {
		return nil
	}
	ex.LimitBody()
	if ex.Request.ContentLength > MaxBody {
		return &http.MaxBytesError{Limit: MaxBody}
	}
	body, err := io.ReadAll(http.MaxBytesReader(ex.ResponseWriter, ex.Request.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		_ = http.NewResponseController(ex.ResponseWriter).SetReadDeadline(time.Time{}) // nothing is left to come
		ex.Body, ex.pace.bodyRead = body, true
		return nil
	case errors.As(err, &tooLarge):
		return err
	}
	ex.pace.bodyBroken = true
	return &Error{Status: http.StatusBadRequest, Detail: "The body could not be read.", Cause: err}
}

// ReadWhole reads the whole body, of at most limit bytes, into an empty buffer, for a request to an upstream, which
// gets the same bytes. So the buffer must not change before the exchange has ended. The client may pause as in an
// upload.
func (ex *Exchange) ReadWhole(body *bytes.Buffer, limit int64) error {
	r := ex.Request
	if r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	upload := ex.Upload()
	if upload == nil {
		return nil
	}
	defer upload.Stop()
	body.Grow(int(min(max(r.ContentLength, 0), MaxBody)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(ex.ResponseWriter, upload, limit)); err != nil {
		return upload.Failure(err)
	}
	ex.pace.bodyRead = true
	upload.ReadCloser = io.NopCloser(bytes.NewReader(body.Bytes()))
	r.Body, r.ContentLength, r.TransferEncoding = upload.ReadCloser, int64(body.Len()), nil
	delete(r.Header, "Expect") // the client has been told to go on
	return nil
}
