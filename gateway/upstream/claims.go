package upstream

import (
	"encoding/json"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/policy"
)

// maxClaimValue is how long the header of a claim may be, in bytes.
const maxClaimValue = 8 << 10

// claimValue returns a claim of an identity as the value of a header: a text, a number, a
// boolean, or a list of these. ok is false if there is none, or if it cannot be written so that
// an application reads it as it is.
func claimValue(id *policy.Identity, path string) (value string, ok bool) {
	switch claim := policy.LookupClaim(id.Claims, path).(type) {
	case []any:
		parts := make([]string, len(claim))
		for i, one := range claim {
			part, ok := scalar(one)
			if !ok || strings.Contains(part, ",") {
				return "", false
			}
			parts[i] = part
		}
		value = strings.Join(parts, ",")
	case []string:
		return claimValue(&policy.Identity{Claims: map[string]any{"list": anyOf(claim)}}, "list")
	default:
		value, ok = scalar(claim)
		if !ok {
			return "", false
		}
	}
	return value, value != "" && len(value) <= maxClaimValue && httpguts.ValidHeaderFieldValue(value) &&
		strings.TrimSpace(value) == value
}

func anyOf(texts []string) []any {
	list := make([]any, len(texts))
	for i, text := range texts {
		list[i] = text
	}
	return list
}

// scalar writes a claim that is no list and no object. Numbers are decimal, without an exponent.
func scalar(claim any) (string, bool) {
	switch claim := claim.(type) {
	case string:
		return claim, claim != "" && httpguts.ValidHeaderFieldValue(claim)
	case bool:
		return strconv.FormatBool(claim), true
	case json.Number:
		if !strings.ContainsAny(claim.String(), "eE") {
			return claim.String(), true
		}
		number, err := claim.Float64()
		return strconv.FormatFloat(number, 'f', -1, 64), err == nil
	case float64:
		return strconv.FormatFloat(claim, 'f', -1, 64), true
	}
	return "", false
}
