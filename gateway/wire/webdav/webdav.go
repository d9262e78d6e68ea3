// Package webdav reads the resources that a request names besides its own: in Destination,
// where COPY and MOVE lead, and in a tagged If, whose conditions are about other resources (RFC
// 4918, sections 10.3 and 10.4).
//
// # Limits and threats
//
// The package takes the headers apart and puts them together again. Who uses it decides on each
// resource as on that of the request line, because an application writes to a Destination
// without asking anybody else. A header that is not in the form of the RFC, or comes twice, is
// an error: the application could find another resource in it. Resources that a body names,
// such as those of a REPORT, are the application's own.
package webdav

import (
	"errors"
	"net/http"
	"strings"
)

// Named are the resources that a request names besides its own.
type Named struct {
	// URLs are the references as received, that of Destination first.
	URLs []string
	// Paths are where the references lead at the upstream, with the query, in the same order. The
	// caller sets them before SetHeader.
	Paths []string

	destination bool
	conditions  []string // of If, before, between and after its URLs; nil: there are none
}

// Errors of Read.
var (
	errTwice = errors.New("the header Destination or If comes more than once")
	errEmpty = errors.New("the header Destination is empty")
	errIf    = errors.New("the header If is not in the form of RFC 4918, section 10.4")
)

// Read returns the resources that a request names, nil if there are none.
func Read(h http.Header) (*Named, error) {
	destination, conditions := h["Destination"], h["If"]
	if len(destination) == 0 && len(conditions) == 0 {
		return nil, nil
	}
	if len(destination) > 1 || len(conditions) > 1 {
		return nil, errTwice
	}
	n := &Named{}
	if len(destination) == 1 {
		if destination[0] == "" {
			return nil, errEmpty
		}
		n.URLs, n.destination = destination, true
	}
	if len(conditions) == 1 {
		texts, urls, err := cutConditions(conditions[0])
		if err != nil {
			return nil, err
		}
		if len(urls) > 0 {
			n.URLs, n.conditions = append(n.URLs[:len(n.URLs):len(n.URLs)], urls...), texts
		}
	}
	if len(n.URLs) == 0 {
		return nil, nil
	}
	return n, nil
}

// Drop leaves out the headers that are not sent.
func (n *Named) Drop(dropped func(name string) bool) {
	if n.destination && dropped("Destination") {
		n.destination, n.URLs, n.Paths = false, n.URLs[1:], n.Paths[1:]
	}
	if dropped("If") {
		n.conditions = nil
	}
}

// SetHeader makes h name the resources as they are at an upstream. base is its scheme, its
// host and the prefix of its paths.
func (n *Named) SetHeader(h http.Header, base string) {
	paths := n.Paths
	if n.destination {
		h["Destination"] = []string{base + paths[0]}
		paths = paths[1:]
	}
	if n.conditions == nil {
		return
	}
	var b strings.Builder
	for i, path := range paths {
		b.WriteString(n.conditions[i])
		b.WriteString(base)
		b.WriteString(path)
	}
	b.WriteString(n.conditions[len(paths)])
	h["If"] = []string{b.String()}
}

// cutConditions cuts an If header at the URLs before its lists. A reference in a list is a
// token of a lock, which names no resource.
func cutConditions(value string) (texts, urls []string, err error) {
	begin, inList, lists := 0, false, 0
	for i := 0; i < len(value); i++ {
		switch c := value[i]; {
		case c == ' ' || c == '\t':
		case c == '<':
			end := strings.IndexByte(value[i:], '>')
			if end < 0 {
				return nil, nil, errIf
			}
			if !inList {
				texts, urls = append(texts, value[begin:i+1]), append(urls, value[i+1:i+end])
				begin = i + end
			}
			i += end
		case c == '(' && !inList:
			inList, lists = true, lists+1
		case c == ')' && inList:
			inList = false
		case c == '[' && inList:
			end := endOfTag(value[i:])
			if end < 0 {
				return nil, nil, errIf
			}
			i += end
		case inList && len(value)-i >= 3 && strings.EqualFold(value[i:i+3], "Not"):
			i += 2
		default:
			return nil, nil, errIf
		}
	}
	if inList || lists == 0 {
		return nil, nil, errIf
	}
	return append(texts, value[begin:]), urls, nil
}

// endOfTag returns where the entity tag in brackets ends with which s begins, -1 if nowhere.
func endOfTag(s string) int {
	tag := strings.TrimPrefix(s[1:], "W/")
	if strings.HasPrefix(tag, `"`) {
		quoted := strings.IndexByte(tag[1:], '"')
		if quoted < 0 || !strings.HasPrefix(tag[quoted+2:], "]") {
			return -1
		}
		return len(s) - len(tag) + quoted + 2
	}
	return strings.IndexByte(s, ']')
}
