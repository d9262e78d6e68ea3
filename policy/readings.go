package policy

import (
	"errors"
	"slices"
	"strings"
)

// EncodedSlashes says which paths a route takes that servers may read in several ways. Any other value
// takes none.
type EncodedSlashes string

const (
	// KeptSlashes are "%2F" as a part of a segment; see ParseTargetWithSlashes.
	KeptSlashes EncodedSlashes = "keep"
	// OpaqueSlashes are those of paths that only the application reads; see ParseTargetOpaque.
	OpaqueSlashes EncodedSlashes = "opaque"
)

// ErrNoRoute: no route matches the request.
var ErrNoRoute = errors.New("policy: no route matches")

var errDecodedAgain = refuse("the path is encoded more than once, and leads to another route when it is decoded again")

// Lookup is Match, if the route takes a path of this form.
func (t *Table) Lookup(req *Request) (Match, bool) {
	found, ok := t.Match(req)
	if !ok || !found.Route.takes(&req.Path) {
		return Match{}, false
	}
	return found, true
}

// Find returns the route of a request that is to be served. The error is ErrNoRoute, or a *TargetError
// for a path that leads elsewhere in another reading: it would choose between two policies.
func (t *Table) Find(req *Request) (Match, error) {
	found, ok := t.Match(req)
	switch {
	case ok && found.Route.EncodedSlashes == OpaqueSlashes:
		return found, t.checkReadings(req)
	case req.Path.Opaque:
		return Match{}, refuse("the path can be read in several ways, and no route of this host takes such paths there")
	case req.Path.Slashed != "" && (!ok || found.Route.EncodedSlashes != KeptSlashes):
		return Match{}, ErrEncodedSlash
	}
	if err := t.checkSlashes(req, found); err != nil {
		return Match{}, err
	}
	if !ok {
		return Match{}, t.checkNone(req)
	}
	if err := t.checkParameters(req, found); err != nil {
		return Match{}, err
	}
	return found, t.checkDecoding(req, found)
}

// takes reports whether the route takes a path of this form.
func (r *Route) takes(path *Path) bool {
	return r.EncodedSlashes == OpaqueSlashes ||
		!path.Opaque && (path.Slashed == "" || r.EncodedSlashes == KeptSlashes)
}

// Readings returns how servers read an opaque path, in canonical form: decoded once or
// completely, with encoded slashes and backslashes as slashes or as data, without empty
// segments, and with and without the parameters of segments.
func (p Path) Readings() []string {
	once := decodeOnce(p.Raw)
	all := append(p.Again(), once, decodeFully(p.Raw))
	for _, path := range all {
		all = append(all, strings.ReplaceAll(path, `\`, "/"))
	}
	if strings.Contains(all[len(all)-1], ";") {
		all = append(all, decodeOnce(dropParameters(p.Raw)))
		for _, path := range all {
			all = append(all, dropParameters(path))
		}
	}
	for i, path := range all {
		all[i] = mergeSlashes(path)
	}
	return all
}

// ReadsAs reports whether is holds for the path as the gateway reads it, or as a server behind it may.
func (p Path) ReadsAs(is func(read string) bool) bool {
	merged := mergeSlashes(p.Slashed)
	return is(p.Decoded) ||
		p.Slashed != "" && (is(p.Slashed) || is(merged) || is(mergeSlashes(dropParameters(merged)))) ||
		p.Opaque && slices.ContainsFunc(p.Readings(), is)
}

// mergeSlashes returns a path without its empty segments.
func mergeSlashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// Again returns how servers read the path that decode it once more, or until nothing is
// left to decode, with encoded slashes kept and as slashes. It returns nil if nothing is
// encoded twice.
func (p Path) Again() []string {
	if !strings.Contains(p.Decoded, "%") {
		return nil
	}
	var all []string
	for _, decode := range []func(string) string{decodeOnce, decodeFully} {
		if p.Slashed == "" {
			all = append(all, decode(p.Decoded))
			continue
		}
		parts := strings.Split(p.Decoded, "%2F")
		for i, part := range parts {
			parts[i] = decode(part)
		}
		slashed := strings.Join(parts, "/")
		all = append(all, strings.Join(parts, "%2F"), slashed, mergeSlashes(slashed))
	}
	return all
}

// checkReadings returns a *TargetError if a reading of the path leads to a route that takes no opaque
// paths, or to none.
func (t *Table) checkReadings(req *Request) error {
	if !req.Path.Opaque && !strings.ContainsAny(req.Path.Raw, "%;") {
		return nil // there is one reading
	}
	for _, path := range req.Path.Readings() {
		read := *req
		read.Path = Path{Decoded: path}
		if found, ok := t.Match(&read); !ok || found.Route.EncodedSlashes != OpaqueSlashes {
			return refuse("the path leads out of the routes of its host when it is read in another way")
		}
	}
	return nil
}

// checkParameters returns a *TargetError if the path without the parameters of
// its segments (RFC 3986, section 3.3) matches another route than found. Some
// upstreams drop the text after a ";", so it must not choose between two
// policies. Some of these look for it before they decode the path, and keep an
// encoded ";" or drop an encoded slash with it.
func (t *Table) checkParameters(req *Request, found Match) error {
	if !strings.Contains(req.Path.Decoded, ";") {
		return nil
	}
	read := []string{dropParameters(req.Path.Decoded), dropParameters(mergeSlashes(req.Path.Decoded))}
	if raw := req.Path.Raw; strings.Contains(raw, ";") && strings.Contains(raw, "%3") {
		if req.Path.Slashed != "" {
			raw = encodeSlashes(raw)
		}
		read = append(read, decodeOnce(dropParameters(raw)))
	}
	if req.Path.Slashed != "" {
		for _, path := range read {
			merged := mergeSlashes(path)
			read = append(read, strings.ReplaceAll(path, "%2F", "/"), strings.ReplaceAll(merged, "%2F", "/"))
		}
	}
	for _, path := range read {
		if !t.leadsTo(found, req, path) {
			return refuse("what follows a \";\" in the path leads to another route")
		}
	}
	return nil
}

// leadsTo reports whether a request with another path matches the same route, with and without the empty
// segments of the path.
func (t *Table) leadsTo(found Match, req *Request, path string) bool {
	read := *req
	read.Path = Path{Decoded: path, Opaque: true} // empty segments are no fault here
	other, ok := t.Match(&read)
	if !ok || other.Index != found.Index {
		return false
	}
	merged := mergeSlashes(path)
	return merged == path || t.leadsTo(found, req, merged)
}

// checkSlashes returns a *TargetError if the path leads to another route than
// found when its encoded slash is read as a slash. WSGI and CGI servers read it
// so. Then the path would choose between two policies.
func (t *Table) checkSlashes(req *Request, found Match) error {
	if req.Path.Slashed == "" {
		return nil
	}
	if !t.leadsTo(found, req, req.Path.Slashed) {
		return refuse("an encoded slash in the path leads to another route")
	}
	read := *req
	read.Path.Raw = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(req.Path.Raw)
	read.Path.Decoded, read.Path.Slashed = req.Path.Slashed, ""
	return t.checkParameters(&read, found)
}

// checkDecoding returns a *TargetError if the path leads to another route than found, or
// to none, for servers that decode it more than once. Some applications do, and then the
// path would choose between two policies.
func (t *Table) checkDecoding(req *Request, found Match) error {
	for _, path := range req.Path.Again() {
		all := []string{path}
		if strings.Contains(path, ";") {
			cut := dropParameters(path)
			all = append(all, cut, strings.ReplaceAll(cut, "%2F", "/"))
		}
		for _, read := range all {
			if !t.leadsTo(found, req, read) {
				return errDecodedAgain
			}
		}
	}
	return nil
}

// checkNone returns ErrNoRoute, or a *TargetError if a path without a route has one when it is decoded again.
func (t *Table) checkNone(req *Request) error {
	read := *req
	for _, path := range req.Path.Again() {
		read.Path = Path{Decoded: path}
		if _, ok := t.Match(&read); ok {
			return errDecodedAgain
		}
	}
	return ErrNoRoute
}

// dropParameters returns a path without the parameters of its segments. It may leave empty segments.
func dropParameters(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}
