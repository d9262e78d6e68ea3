package policy

import "strings"

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
		all = append(all, strings.Join(parts, "%2F"), strings.Join(parts, "/"))
	}
	return all
}

// CheckDecoding returns a *TargetError if the path leads to another route than found, or
// to none, for servers that decode it more than once. Some applications do, and then the
// path would choose between two policies.
func (t *Table) CheckDecoding(req *Request, found Match) error {
	for _, path := range req.Path.Again() {
		if !t.leadsTo(found, req, path) || strings.Contains(path, ";") && !t.leadsTo(found, req, dropParameters(path)) {
			return refuse("the path is encoded more than once, and leads to another route when it is decoded again")
		}
	}
	return nil
}

// CheckSlashes returns a *TargetError if the path has an encoded slash and leads
// to another route than found when that is read as a slash, as WSGI and CGI
// servers read it. Then the path would choose between two policies.
func (t *Table) CheckSlashes(req *Request, found Match) error {
	if req.Path.Slashed == "" {
		return nil
	}
	if !t.leadsTo(found, req, req.Path.Slashed) {
		return refuse("an encoded slash in the path leads to another route")
	}
	read := *req
	read.Path.Raw = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(req.Path.Raw)
	read.Path.Decoded, read.Path.Slashed = req.Path.Slashed, ""
	return t.CheckParameters(&read, found)
}
