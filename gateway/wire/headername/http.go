package headername

import (
	"slices"
	"strings"
)

// ofHTTP are the folded names of headers that have a meaning in HTTP (RFC 9110 to 9112, 6265,
// 6455, 7239, 4918), in browsers, or in the gateway's tracing.
var ofHTTP = []string{
	"Accept", "Age", "Allow", "Alt-Svc", "Alt-Used", "Authentication-Info", "Authorization", "Baggage", "Cache-Control",
	"Clear-Site-Data", "Close", "Connection", "Cookie", "Cookie2", "Dav", "Date", "Depth", "Destination", "Dnt",
	"Early-Data", "Etag", "Expect", "Expires", "Forwarded", "From", "Host", "Http2-Settings", "Idempotency-Key", "If",
	"Keep-Alive", "Last-Event-Id", "Last-Modified", "Link", "Location", "Lock-Token", "Max-Forwards", "Mime-Version",
	"Origin", "Overwrite", "Pragma", "Prefer", "Preference-Applied", "Priority", "Proxy-Authenticate",
	"Proxy-Authentication-Info", "Proxy-Authorization", "Proxy-Connection", "Purpose", "Range", "Referer", "Refresh",
	"Retry-After", "Server", "Server-Timing", "Service-Worker", "Service-Worker-Allowed", "Set-Cookie", "Set-Cookie2",
	"Signature", "Signature-Input", "Strict-Transport-Security", "Te",
	"Timeout", "Traceparent", "Tracestate", "Trailer",
	"Transfer-Encoding", "Upgrade", "Upgrade-Insecure-Requests", "User-Agent", "Vary", "Via", "Want-Content-Digest",
	"Want-Repr-Digest", "Warning", "Www-Authenticate", "X-Request-Id",
}

// familiesOfHTTP are how names of further such headers begin.
var familiesOfHTTP = []string{"Accept-", "Access-Control-", "Content-", "If-", "Sec-"}

// OfHTTP reports whether a folded name has a meaning in HTTP, so that no identity can be in
// that header too.
func OfHTTP(folded string) bool {
	begins := func(prefix string) bool { return strings.HasPrefix(folded, prefix) }
	return slices.Contains(ofHTTP, folded) || slices.ContainsFunc(familiesOfHTTP, begins)
}
