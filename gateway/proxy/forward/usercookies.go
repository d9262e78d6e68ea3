package forward

import (
	"net/http"

	"authgate/gateway/identity/auth"
	"authgate/gateway/wire/cookiename"
)

// owner returns whose cookies the application gets, beside those of all users of the browser.
func (q *Request) owner() cookiename.Owner {
	if !q.Route.perUser {
		return ""
	}
	subject := "" // without credentials: such requests have cookies too, which are no user's
	if id := q.Exchange.Identity; id != nil {
		subject = id.Subject
	}
	return cookiename.OwnerOf(subject)
}

// ownCookies gives the cookies that the application sets to the user who gets them.
func (q *Request) ownCookies(h http.Header) {
	ex := q.Exchange
	owned := auth.Owned{Owner: q.owner(), Sent: ex.Request.Header["Cookie"], Now: ex.Start}
	if lines, sets := h["Set-Cookie"]; sets {
		h["Set-Cookie"] = owned.ToBrowser(lines)
	}
	if ex.Credentials.Renamed {
		for _, line := range owned.Forgotten() {
			h.Add("Set-Cookie", line)
		}
	}
	if owned.TooLong > 0 {
		q.Route.site.Service.Logger.Warn("cookies are too long for browsers under the names that "+
			"cookies: per_user gives them",
			"upstream", q.Route.config.Upstream, "cookies", owned.TooLong)
	}
}
