package policy

import (
	"encoding/json"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// anyClaim holds if HasClaim does.
func anyClaim(path string, values []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool { return HasClaim(id.Claims, path, values) }
}

// HasClaim reports whether the claim at the dotted path is one of values, or an array that
// contains one of them.
func HasClaim(claims map[string]any, path string, values []string) bool {
	switch claim := LookupClaim(claims, path).(type) {
	case []any:
		return slices.ContainsFunc(claim, func(one any) bool { return claimIn(one, values) })
	case []string:
		return slices.ContainsFunc(claim, func(one string) bool { return slices.Contains(values, one) })
	default:
		return claimIn(claim, values)
	}
}

// LookupClaim returns the claim at a dotted path, or nil if there is none. A
// null claim is missing (OpenID Connect Core 1.0, section 5.3.2). A claim whose
// name contains dots, such as https://example.org/roles, wins over the same path
// through nested objects. Of several paths through objects, the one with the
// shortest first name wins.
func LookupClaim(claims map[string]any, path string) any {
	if claim := claims[path]; claim != nil {
		return claim
	}
	for i := range len(path) {
		if path[i] != '.' {
			continue
		}
		if nested, ok := claims[path[:i]].(map[string]any); ok {
			if claim := LookupClaim(nested, path[i+1:]); claim != nil {
				return claim
			}
		}
	}
	return nil
}

// claimIn reports whether a single claim is one of values, by its text.
func claimIn(claim any, values []string) bool {
	text, ok := ClaimText(claim)
	return ok && slices.Contains(values, text)
}

// exactFloat is the first float64 that several integers round to.
const exactFloat = 1 << 53

// ClaimText returns a single claim as a text: a string as it is, a boolean, or a number in
// decimal notation without an exponent: 42, 0.5. Null, lists and objects have none. Neither
// has a number so large that decoding may have changed it.
func ClaimText(claim any) (text string, ok bool) {
	switch claim := claim.(type) {
	case string:
		return claim, true
	case bool:
		return strconv.FormatBool(claim), true
	case json.Number:
		return decimal(claim.String())
	case float64:
		return strconv.FormatFloat(claim, 'f', -1, 64), -exactFloat < claim && claim < exactFloat
	}
	return "", false
}

// Bounds of numbers that are written in another way than as they came, so that no claim of a
// few bytes takes memory without end.
const (
	maxNumber   = 1000 // its length
	maxExponent = 4    // its length, with its sign
)

// decimal writes a number of JSON without an exponent, and without zeros at the end of a
// fraction.
func decimal(number string) (text string, ok bool) {
	if !strings.ContainsAny(number, ".eE") {
		return number, true
	}
	_, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	exact, ok := new(big.Rat), len(number) <= maxNumber && len(exponent) <= maxExponent
	if ok {
		exact, ok = exact.SetString(number)
	}
	if !ok {
		return "", false
	}
	digits, _ := exact.FloatPrec()
	return exact.FloatString(digits), true
}
