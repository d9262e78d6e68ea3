package policy

import (
	"encoding/json"
	"slices"
	"strconv"
)

// anyClaim holds when the claim at the dotted path is one of values, or an
// array with one of them in it.
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
// claim that is null counts as missing (OpenID Connect Core 1.0, section
// 5.3.2). A name with dots in it, such as https://example.org/roles, comes
// before the same path through nested objects. Of several ways through objects
// the one whose first name is shortest comes first.
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

// exactFloat is where a float64 begins to stand for several integers.
const exactFloat = 1 << 53

// claimIn reports whether a single claim is one of values. A number is
// compared in decimal notation: 42, 0.5. Null and objects equal nothing, nor
// does a number so large that decoding it may have changed it.
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
