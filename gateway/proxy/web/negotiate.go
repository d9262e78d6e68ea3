package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/munnerz/goautoneg"
)

// Media types of requests and answers.
const (
	TypeJSON    = "application/json"
	TypeProblem = "application/problem+json"
	TypeHTML    = "text/html"
	TypeForm    = "application/x-www-form-urlencoded"
)

// Negotiate picks the media type of the gateway's own answers (RFC 9110,
// section 12.5.1): a page only for a client that prefers HTML to JSON, and
// problem+json only for one that names it.
func Negotiate(r *http.Request) string {
	lines := r.Header["Accept"]
	if len(lines) == 0 {
		return TypeJSON
	}
	ranges := goautoneg.ParseAccept(strings.ToLower(strings.Join(lines, ",")))
	page, named := preferenceFor(ranges, TypeHTML), preferenceFor(ranges, TypeProblem)
	switch {
	case page.over(named) && page.over(preferenceFor(ranges, TypeJSON)):
		return TypeHTML
	case named.specific == 2 && named.quality > 0:
		return TypeProblem
	}
	return TypeJSON
}

// preference is how much a client wants a media type: the quality of the most
// specific range for it, and how many parts of the type that range names.
type preference struct {
	quality  float64
	specific int
}

// over reports whether p is wanted, and more than o.
func (p preference) over(o preference) bool {
	return p.quality > 0 && (p.quality > o.quality || p.quality == o.quality && p.specific > o.specific)
}

func preferenceFor(ranges []goautoneg.Accept, media string) preference {
	best := preference{specific: -1}
	for _, r := range ranges {
		specific := slices.Index([]string{"*/*", strings.Split(media, "/")[0] + "/*", media}, r.Type+"/"+r.SubType)
		if specific > best.specific {
			best = preference{quality: r.Q, specific: specific}
		}
	}
	return best
}
