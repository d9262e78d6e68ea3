package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"authgate/gateway/config/forwarding"
	"authgate/gateway/proxy/upstream/http1"
	"authgate/gateway/wire/conn"
)

const (
	// restAfterFailure is how long a target that failed rests: the balancer tries it
	// only after all others.
	restAfterFailure = 5 * time.Second
	// strikesToRest is how many requests in a row must fail at a target that accepts
	// connections, until it rests. A single one may be the fault of the request.
	strikesToRest = 3
	// slowStart is how long the share of a target grows after it came back, and
	// leastShare is the share that it begins with.
	slowStart  = 10 * time.Second
	leastShare = 0.1
)

// Schemes of the URLs of targets.
const (
	schemeHTTP    = "http"
	schemeHTTPS   = "https"
	schemeUnix    = "unix"
	schemeH2C     = "h2c"
	schemeUnixH2C = "unix+h2c"
)

// target is one address of an upstream, with its state. All times are nanoseconds
// of Upstream.elapsed.
type target struct {
	url    *url.URL
	name   string // in metrics and the log
	dial   string // HOST:PORT, or the path of a socket; for HTTP/2 that path as a host
	prefix string // of all paths
	host   string // that the upstream gets; empty: that of the client's request

	inFlight atomic.Int64 // counted if there are several targets
	resting  atomic.Int64 // until when it rests
	untested atomic.Bool  // no request has succeeded since the rest began
	strikes  atomic.Int64 // failures in a row
	sick     atomic.Bool  // by active checks
	back     atomic.Int64 // since when it is back; 0: it was never away
}

// newTarget returns a target of an upstream.
func newTarget(address *url.URL, host string) *target {
	t := &target{url: address, name: address.String(), dial: address.Host, prefix: forwarding.TargetPrefix(address),
		host: host}
	if socket := forwarding.UnixTarget(address); socket != "" {
		t.dial = socket
		if address.Scheme == schemeUnixH2C {
			t.dial = socketHost(socket)
		}
	}
	switch host {
	case forwarding.HostClient, "":
		t.host = ""
	case forwarding.HostTarget:
		t.host = t.ownHost()
	}
	return t
}

// ownHost returns the host of the target, as it is in requests. A socket has none.
func (t *target) ownHost() string {
	if forwarding.UnixTarget(t.url) != "" {
		return "localhost"
	}
	return withoutZone(t.url.Host)
}

// withoutZone removes the zone of an IPv6 address, which has a meaning on this machine only
// (RFC 6874, section 1).
func withoutZone(host string) string {
	address, rest, zoned := strings.Cut(host, "%")
	if !zoned {
		return host
	}
	_, port, bracketed := strings.Cut(rest, "]")
	if !bracketed {
		return address
	}
	return address + "]" + port
}

// address makes r a request to the target. path is the path to request.
func (t *target) address(r *http.Request, path string) {
	r.URL.Scheme, r.URL.Host = t.url.Scheme, t.dial
	setPath(r.URL, t.prefix+path)
	if t.host != "" {
		r.Host = t.host
	}
}

// setPath makes the target of a request from the bytes of a path. They are Opaque, because a
// URL's own encoding could differ. But an Opaque with two slashes at its beginning would be
// sent as a URL with a scheme, whose host is the first segment.
func setPath(u *url.URL, path string) {
	u.Opaque, u.Path, u.RawPath = path, "", ""
	if strings.HasPrefix(path, "//") {
		u.Opaque, u.RawPath = "", encodeUnusual(path)
		u.Path, _ = url.PathUnescape(u.RawPath) // policy has checked its encoding
	}
}

// encodeUnusual percent-encodes the bytes that no RFC allows in a path. url.URL would encode
// the whole path anew.
func encodeUnusual(path string) string {
	const usual = "-._~!$&'()*+,;=:@/%[]"
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		if '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z' || strings.IndexByte(usual, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// up reports whether nothing speaks against the target.
func (t *target) up(now int64) bool {
	return !t.sick.Load() && !t.untested.Load() && t.resting.Load() <= now
}

// share returns the share of its turns that the target takes: less than 1 for
// some time after it came back, so that it can warm up.
func (t *target) share(now int64) float64 {
	back := t.back.Load()
	if back == 0 || now-back >= int64(slowStart) {
		return 1
	}
	return max(leastShare, float64(now-back)/float64(slowStart))
}

// succeeded notes that the target answered. It reports whether the target is back.
func (t *target) succeeded(now int64) (back bool) {
	if t.resting.Load() > now {
		return false // the answer may be that to an older request
	}
	t.strikes.Store(0)
	if !t.untested.CompareAndSwap(true, false) {
		return false
	}
	t.back.Store(max(1, now))
	return true
}

// failed notes that a request failed at the target, for a reason that speaks
// against it. It reports whether the target was well before and rests now.
func (t *target) failed(now int64, err error) (rests bool) {
	if t.strikes.Add(1) < strikesToRest && !unreachable(err) {
		return false
	}
	t.resting.Store(now + int64(restAfterFailure))
	return !t.untested.Swap(true)
}

// unreachable reports whether err means that the address does not accept
// connections. A lack of file descriptors is a fault of this machine.
func unreachable(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" && !conn.OutOfDescriptors(err)
}

// blames reports whether the failure of a request speaks against the target: it
// does not accept connections, or closed one without an answer, or did not answer
// in time. The time may be the client's if it was still sending a body.
func blames(r *http.Request, err error) bool {
	var timeout net.Error
	switch {
	case r.Context().Err() != nil || conn.OutOfDescriptors(err):
		return false
	case unreachable(err), http1.NoResponse(err):
		return true
	}
	sent := r.Body == nil || r.Body == http.NoBody || 0 < r.ContentLength && r.ContentLength <= http1.SmallBody
	return sent && errors.As(err, &timeout) && timeout.Timeout()
}

// hold counts a response as in flight until its body is closed.
func (t *target) hold(response *http.Response) {
	if response.Body == http.NoBody {
		t.inFlight.Add(-1)
		return
	}
	held := &held{ReadCloser: response.Body, target: t}
	if tunnel, ok := response.Body.(io.ReadWriteCloser); ok {
		response.Body = &heldTunnel{held: held, Writer: tunnel}
		return
	}
	response.Body = held
}

// held is the body of a response that counts as in flight.
type held struct {
	io.ReadCloser
	target   *target
	released atomic.Bool
}

// Close implements io.Closer.
func (h *held) Close() error {
	if !h.released.Swap(true) {
		h.target.inFlight.Add(-1)
	}
	return h.ReadCloser.Close()
}

// heldTunnel is a connection that a response has become.
type heldTunnel struct {
	*held
	io.Writer
}

// CloseWrite tells the upstream that nothing more comes.
func (h *heldTunnel) CloseWrite() error {
	if c, ok := h.ReadCloser.(interface{ CloseWrite() error }); ok {
		return c.CloseWrite()
	}
	return net.ErrClosed
}
