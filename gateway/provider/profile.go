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

// Profile is what a provider says of a person, for the store.
type Profile struct {
	Subject  string `json:"subject"` // sub: the person, for good, at this provider
	Username string `json:"username"`
	Name     string `json:"name,omitempty"`

	// Email is empty too where the provider calls the address unverified.
	Email string   `json:"email,omitempty"`
	Roles []string `json:"roles,omitempty"`

	// Claims are those of the ID token, and over them those of userinfo,
	// without those of the protocol and without an unverified address: at most
	// 64 KiB as JSON. Numbers are json.Number.
	Claims map[string]any `json:"claims,omitempty"`
}

// maxClaims is the longest Profile.Claims as JSON, in bytes.
const maxClaims = 64 << 10

// mapping makes profiles of claims.
type mapping struct {
	roles, username string // claims, as dotted paths
	logger          *slog.Logger
}

// profile makes a profile of sources, of which the first that has something to
// say counts. The roles have been found already.
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

// name chooses the user name: the configured claim, a verified e-mail address,
// sub.
func (m mapping) name(subject, email string, sources []claims) (string, error) {
	from, username := "sub", subject
	if email != "" {
		from, username = "email", email
	}
	if m.username != "email" && first(m.username, sources...) != nil { // that one only if it is verified
		from = m.username
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

// verifiedEmail is the address of the first source that has one. It is empty
// where there is none, or where any source calls it unverified: that one of
// them has verified another address is of no account.
func verifiedEmail(sources []claims) (string, error) {
	for _, source := range sources {
		email, err := text("email", []claims{source})
		if err != nil {
			return "", err
		}
		if email == "" {
			continue
		}
		// Two addresses in one, as a@evil@company.com, would be of one domain
		// here and of another elsewhere.
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
		case false, "false", "true": // a string is not the boolean that it has to be
			return "", nil
		default:
			return "", fmt.Errorf("email_verified is %s, expected true or false", kindOf(verified))
		}
	}
	return "", nil
}

// denies reports whether the source calls that very address unverified.
func denies(source claims, email string) bool {
	same, _ := source["email"].(string)
	verified := source["email_verified"]
	return strings.EqualFold(same, email) && (verified == false || verified == "false")
}

func notInEmail(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }

// text is a claim of the first source that has it, empty where none has.
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

// merge lays the sources over each other, the first on top.
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
