package http1

import (
	"iter"
	"net/http"
	"strings"
)

// Negotiates reports whether one of the credentials or challenges is of a scheme that
// authenticates the connection: NTLM or Negotiate.
func Negotiates(values []string) bool {
	for _, value := range values {
		for part := range listed(value) {
			if ofConnection(part) {
				return true
			}
		}
	}
	return false
}

// ofConnection reports whether a part of a list of challenges begins one of NTLM or
// Negotiate (RFC 9110, section 11.6.1).
func ofConnection(part string) bool {
	scheme, _ := token(part)
	return strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate")
}

// negotiates reports whether an upstream offers to authenticate the connection, or does.
func negotiates(response *http.Response) bool { return Negotiates(response.Header["Www-Authenticate"]) }

// WithoutNegotiate returns the challenges that authenticate requests, without those that
// authenticate the connection.
func WithoutNegotiate(challenges []string) []string {
	var kept []string
	for _, line := range challenges {
		var parts []string
		drop := false
		for part := range listed(line) {
			if begins(part) {
				drop = ofConnection(part)
			}
			if !drop {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			kept = append(kept, strings.Join(parts, ", "))
		}
	}
	return kept
}

// begins reports whether a part of a list of challenges begins one. Otherwise it is a
// parameter of the challenge before it.
func begins(part string) bool {
	_, rest := token(part)
	return !strings.HasPrefix(rest, "=")
}

// token returns the text before the first space or "=", and the text after the spaces.
func token(part string) (first, rest string) {
	end := strings.IndexAny(part, " \t=")
	if end < 0 {
		return part, ""
	}
	return part[:end], strings.TrimLeft(part[end:], " \t")
}

// listed yields the parts of a comma-separated list, without outer space. A comma in a quoted string
// is not one of the list.
func listed(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if !strings.Contains(list, ",") { // a token may be long
			if text := strings.Trim(list, " \t"); text != "" {
				yield(text)
			}
			return
		}
		quoted, from := false, 0
		part := func(end int) bool {
			text := strings.Trim(list[from:end], " \t")
			from = end + 1
			return text == "" || yield(text)
		}
		for i := 0; i < len(list); i++ {
			switch c := list[i]; {
			case quoted && c == '\\':
				i++
			case c == '"':
				quoted = !quoted
			case c == ',' && !quoted:
				if !part(i) {
					return
				}
			}
		}
		part(len(list))
	}
}
