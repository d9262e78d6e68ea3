package upstream

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"authgate/gateway/config/forwarding"
	"authgate/policy"
)

// Rewriter makes responses that name a target name the gateway instead: the
// Location, and the Domain and Path of cookies. It is for applications that do
// not know how clients reach them.
type Rewriter struct {
	origins  map[string]bool // of the targets
	domains  map[string]bool // of the targets, in lower case
	prefix   string          // of paths at the targets, without a slash at the end
	stripped string          // the prefix that the route removes from paths, encoded likewise
}

// NewRewriter returns the rewriter of a route that strips a prefix, in decoded
// form. It returns nil if the upstream's responses are not rewritten.
func NewRewriter(cfg forwarding.Upstream, stripPrefix string) *Rewriter {
	if !cfg.RewriteResponses || len(cfg.URLs) == 0 {
		return nil
	}
	w := &Rewriter{
		origins: map[string]bool{}, domains: map[string]bool{},
		prefix: forwarding.TargetPrefix(cfg.URLs[0]), stripped: EncodedPrefix(stripPrefix),
	}
	for _, address := range cfg.URLs {
		t := newTarget(address, cfg.Host)
		w.add(t.ownHost())
		if cfg.Host != forwarding.HostClient && cfg.Host != forwarding.HostTarget {
			w.add(cfg.Host)
		}
	}
	return w
}

// EncodedPrefix returns a prefix in decoded form as it is written in a URL.
func EncodedPrefix(prefix string) string {
	return strings.TrimSuffix((&url.URL{Path: prefix}).EscapedPath(), "/")
}

// add adds a host of the targets. An application takes the scheme of its URLs from the
// connection, or from X-Forwarded-Proto.
func (w *Rewriter) add(host string) {
	for _, scheme := range []string{"http", "https"} {
		u := &url.URL{Scheme: scheme, Host: host}
		w.origins[origin(u)] = true
		w.domains[strings.ToLower(u.Hostname())] = true
	}
}

// origin returns the origin of a URL in one form.
func origin(u *url.URL) string {
	scheme, port := strings.ToLower(u.Scheme), u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[scheme]
	}
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Rewrite rewrites the header of a response to a request for host at the gateway.
func (w *Rewriter) Rewrite(h http.Header, host string) {
	if location := h["Location"]; len(location) == 1 {
		if there, ok := w.location(location[0], host); ok {
			h["Location"] = []string{there}
		}
	}
	if lines, ok := h["Set-Cookie"]; ok {
		rewritten := make([]string, len(lines))
		for i, line := range lines {
			rewritten[i] = w.cookie(line, host)
		}
		h["Set-Cookie"] = rewritten
	}
}

// location returns a Location that names a target as it is at the gateway.
func (w *Rewriter) location(location, host string) (string, bool) {
	if strings.HasPrefix(location, "/") && !leadsAway(location) {
		path, rest := cutPath(location)
		there, ok := w.path(path)
		return there + rest, ok && !leadsAway(there)
	}
	u, err := url.Parse(location)
	if err != nil || u.Host == "" || u.User != nil {
		return "", false
	}
	target, own := w.names(u, host)
	if !target && !own {
		return "", false
	}
	_, after, _ := strings.Cut(location, "//")
	end := strings.IndexAny(after, "/?#") // of the host
	if end < 0 {
		end = len(after)
	}
	path, rest := cutPath(after[end:])
	if path == "" {
		path = "/"
	}
	there, ok := w.path(path)
	if own && w.stripped != "" && within(path, w.stripped) {
		there, ok = path, true // the application knows its prefix
	}
	return "https://" + host + there + rest, ok
}

// leadsAway reports whether browsers take a reference that begins with a slash for
// one to another host: "//host", in any of the forms that they accept.
func leadsAway(reference string) bool {
	return len(reference) > 1 && strings.IndexByte("/\\\t\r\n", reference[1]) >= 0
}

// names reports whether a URL names a target, or the host of the client's request,
// which the application knows from Host or X-Forwarded-Host.
func (w *Rewriter) names(u *url.URL, host string) (target, own bool) {
	schemes := []string{u.Scheme}
	if u.Scheme == "" { // the client uses that of the gateway
		schemes = []string{"http", "https"}
	}
	for _, scheme := range schemes {
		named := origin(&url.URL{Scheme: scheme, Host: u.Host})
		target = target || w.origins[named]
		own = own || named == origin(&url.URL{Scheme: scheme, Host: host})
	}
	return target, own
}

// cutPath cuts a reference after its path.
func cutPath(s string) (path, rest string) {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return s[:i], s[i:]
	}
	return s, ""
}

// within reports whether a path is prefix or below it.
func within(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// path returns a path at the targets as it is at the gateway. There are none
// outside of the targets' prefix.
func (w *Rewriter) path(path string) (string, bool) {
	if !within(path, w.prefix) {
		return path, false
	}
	there := w.stripped + path[len(w.prefix):]
	if there == "" {
		there = "/"
	}
	return there, true
}

// cookie returns a Set-Cookie line whose attributes name the gateway.
func (w *Rewriter) cookie(line, host string) string {
	parts := strings.Split(line, ";")
	name, _, _ := strings.Cut(strings.TrimSpace(parts[0]), "=")
	if len(name) >= len(hostPrefix) && strings.EqualFold(name[:len(hostPrefix)], hostPrefix) {
		return line // browsers refuse it with a Domain or another Path
	}
	kept := parts[:1]
	for _, part := range parts[1:] {
		attribute, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch attribute = strings.TrimSpace(attribute); {
		case strings.EqualFold(attribute, "Domain") && w.domains[strings.ToLower(strings.TrimPrefix(value, "."))]:
			domain := cookieDomain(host)
			if domain == "" {
				continue
			}
			part = " Domain=" + domain
		case strings.EqualFold(attribute, "Path"):
			if there, ok := w.path(value); ok && strings.HasPrefix(value, "/") {
				part = " Path=" + cookiePath(there)
			}
		}
		kept = append(kept, part)
	}
	return strings.Join(kept, ";")
}

// hostPrefix begins the names of cookies that have no Domain and the Path / (RFC
// 6265bis, section 4.1.3.2).
const hostPrefix = "__Host-"

// cookiePath returns a path for a cookie: without the slash at its end, so that
// the path itself gets the cookie too.
func cookiePath(path string) string {
	if trimmed := strings.TrimSuffix(path, "/"); trimmed != "" && !strings.HasSuffix(trimmed, "/") {
		return trimmed
	}
	return path
}

// cookieDomain returns the Domain of a cookie for a host, "" if the cookie must
// have none: an address, and a name without a dot, has nothing below it.
func cookieDomain(host string) string {
	name, err := policy.CanonicalHost(host)
	if err != nil || !strings.Contains(name, ".") {
		return ""
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	return name
}
