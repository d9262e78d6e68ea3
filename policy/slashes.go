package policy

import "strings"

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
