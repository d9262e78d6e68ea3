package upstream

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/net/http/httpguts"

	"authgate/policy"
)

// maxClaimValue is how long the header of a claim may be, in bytes.
const maxClaimValue = 8 << 10

// claimValue returns a claim of an identity as the value of a header: a text, a number, a
// boolean, or a list of these. It is empty if there is no such claim. The error is why the claim
// cannot be written so that an application reads it as it is, and does not contain it.
func claimValue(id *policy.Identity, path string) (value string, err error) {
	claim := policy.LookupClaim(id.Claims, path)
	list, isList := claim.([]any)
	switch {
	case isList:
		value, err = joined(list)
	case claim == nil:
	default:
		value, err = single(claim)
	}
	switch {
	case err != nil:
		return "", err
	case len(value) > maxClaimValue:
		return "", fmt.Errorf("it is longer than %d bytes", maxClaimValue)
	case strings.TrimSpace(value) != value:
		return "", errors.New("it begins or ends with a space, which HTTP removes")
	}
	return value, nil
}

// joined writes a list.
func joined(list []any) (string, error) {
	parts := make([]string, len(list))
	for i, entry := range list {
		part, err := single(entry)
		switch {
		case err != nil:
			return "", fmt.Errorf("entry %d: %w", i+1, err)
		case part == "":
			return "", fmt.Errorf("entry %d is empty", i+1)
		case strings.Contains(part, ","):
			return "", fmt.Errorf("entry %d contains a comma, which separates entries", i+1)
		}
		parts[i] = part
	}
	return strings.Join(parts, ","), nil
}

// single writes a claim that is no list.
func single(claim any) (string, error) {
	text, ok := policy.ClaimText(claim)
	if !ok {
		return "", errors.New("it is neither a text nor a number nor a boolean")
	}
	if !httpguts.ValidHeaderFieldValue(text) {
		return "", errors.New("it contains a control character, which no header can have")
	}
	return text, nil
}
