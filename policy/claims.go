package policy

import (
	"encoding/json"
	"slices"
	"strconv"
)

// anyClaim holds if the claim at the dotted path is one of values, or an array
// that contains one of them.
func anyClaim(path string, values []string) func(*Identity, *Request) bool {
	return func(id *Identity, _ *Request) bool {
		switch claim := LookupClaim(id.Claims, path).(type) {
		case []any:
			return slices.ContainsFunc(claim, func(one any) bool { return claimIn(one, values) })
		case []string:
			return slices.ContainsFunc(claim, func(one string) bool { return slices.Contains(values, one) })
		default:
			return claimIn(claim, values)
		}
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

// exactFloat is the first float64 that several integers round to.
const exactFloat = 1 << 53

// claimIn reports whether a single claim is one of values. Numbers are compared
// in decimal notation: 42, 0.5. Null and objects equal no value. Neither does a
// number so large that decoding may have changed it.
func claimIn(claim any, values []string) bool {
	switch claim := claim.(type) {
	case string:
		return slices.Contains(values, claim)
	case bool:
		return slices.Contains(values, strconv.FormatBool(claim))
	case json.Number:
		return slices.Contains(values, claim.String())
	case float64:
		if !(-exactFloat < claim && claim < exactFloat) {
			return false
		}
		var buf [32]byte
		text := strconv.AppendFloat(buf[:0], claim, 'f', -1, 64)
		return slices.ContainsFunc(values, func(v string) bool { return v == string(text) })
	}
	return false
}
