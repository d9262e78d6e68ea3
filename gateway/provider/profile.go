package provider

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Profile describes a user as the provider does. Its JSON is stored.
type Profile struct {
	Subject  string `json:"subject"` // sub: the permanent identifier of the user at this provider
	Username string `json:"username"`
	Name     string `json:"name,omitempty"`

	// Email is empty if the provider calls the address unverified.
	Email string   `json:"email,omitempty"`
	Roles []string `json:"roles,omitempty"`

	// Claims are those of the ID token and of userinfo; the latter take
	// precedence. They contain no claims of the protocol and no unverified
	// address, and take at most 64 KiB as JSON. Numbers are json.Number.
	Claims map[string]any `json:"claims,omitempty"`
}

// maxClaims is the longest Profile.Claims as JSON, in bytes.
const maxClaims = 64 << 10

// mapping makes profiles from claims.
type mapping struct {
	Mapping
	logger *slog.Logger
}

// profile makes a profile from sources. For each claim, the first source that has it
// counts.
func (m mapping) profile(subject string, roles []string, sources ...claims) (Profile, error) {
	name, err := text("name", sources)
	if err != nil {
		return Profile{}, err
	}
	email, err := verifiedEmail(sources)
	if err != nil {
		return Profile{}, err
	}
	username, err := m.name(subject, email, sources)
	if err != nil {
		return Profile{}, err
	}
	all, err := merge(email, sources)
	if err != nil {
		return Profile{}, err
	}
	return Profile{Subject: subject, Username: username, Name: name, Email: email, Roles: roles, Claims: all}, nil
}

// name returns the user name: the configured claim, else a verified email address,
// else sub.
func (m mapping) name(subject, email string, sources []claims) (string, error) {
	from, username := "sub", subject
	if email != "" {
		from, username = "email", email
	}
	if m.Username != "email" && first(m.Username, sources...) != nil { // email counts only if verified
		from = m.Username
		var err error
		if username, err = text(from, sources); err != nil {
			return "", err
		}
	}
	if err := checkIdentifier(from, username); err != nil {
		return "", fmt.Errorf("as a user name, %w; see username_claim", err)
	}
	if strings.TrimSpace(username) != username {
		return "", fmt.Errorf("as a user name, %s has outer space; see username_claim", from)
	}
	return username, nil
}

// verifiedEmail returns the address of the first source that has one. It is empty if
// there is none, or if any source calls this address unverified. Another verified
// address does not replace it.
func verifiedEmail(sources []claims) (string, error) {
	for _, source := range sources {
		email, err := text("email", []claims{source})
		if err != nil {
			return "", err
		}
		if email == "" {
			continue
		}
		// Two readers could find different domains in a@evil@company.com.
		local, domain, _ := strings.Cut(email, "@")
		if local == "" || domain == "" || strings.Contains(domain, "@") || strings.ContainsFunc(email, notInEmail) {
			return "", fmt.Errorf("email is %q, which is not one address", clip(email, maxSubject))
		}
		switch verified := source["email_verified"]; verified {
		case nil, true:
			if slices.ContainsFunc(sources, func(other claims) bool { return denies(other, email) }) {
				return "", nil
			}
			return email, nil
		case false, "false", "true": // a string does not count, because a boolean is required
			return "", nil
		default:
			return "", fmt.Errorf("email_verified is %s, expected true or false", kindOf(verified))
		}
	}
	return "", nil
}

// denies reports whether the source calls this address unverified.
func denies(source claims, email string) bool {
	same, _ := source["email"].(string)
	verified := source["email_verified"]
	return strings.EqualFold(same, email) && (verified == false || verified == "false")
}

func notInEmail(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }

// text returns a claim of the first source that has it, or "".
func text(path string, sources []claims) (string, error) {
	switch value := first(path, sources...).(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	default:
		return "", fmt.Errorf("%s is %s, expected a string", path, kindOf(value))
	}
}

// merge joins the claims of the sources. Earlier sources take precedence.
func merge(email string, sources []claims) (map[string]any, error) {
	all := map[string]any{}
	for i := range sources {
		maps.Copy(all, sources[len(sources)-1-i])
	}
	for _, name := range protocolClaims {
		delete(all, name)
	}
	if email == "" {
		delete(all, "email")
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	if len(raw) > maxClaims {
		return nil, fmt.Errorf("there are %d bytes of claims, and at most %d are kept; let the provider send fewer", len(raw), maxClaims)
	}
	return all, nil
}
