package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"authgate/policy"
)

// maxRole is the longest role, in bytes. Upstreams get roles in a header.
const maxRole = 1 << 10

// accessRoles returns the roles claim of an access token that is a JWT of the provider
// about the same user. An access token need not be readable for its client, so the
// result is empty if it is not valid. The error is that of fetching the keys.
func (p *Provider) accessRoles(ctx context.Context, m *metadata, access, subject string) (claims, error) {
	found := claims{}
	if strings.Count(access, ".") != 2 || !p.openID() {
		return found, nil
	}
	c, _, err := p.verify(ctx, m, access, accessForm, m.algorithms())
	if err == nil && c["sub"] != subject {
		err = errors.New("it is about another person")
	}
	if err != nil {
		if unanswered(err) {
			return nil, err
		}
		p.logger.Debug("no roles are read from the access token", "error", err)
		return found, nil
	}
	if value := first(p.mapping.Roles, c); value != nil {
		found[p.mapping.Roles] = value
	}
	return p.mapping.bounded(found), nil
}

// tellsRoles reports whether one of the sources has roles that can be used, or whether
// none are wanted.
func (m mapping) tellsRoles(sources ...claims) bool {
	for _, source := range sources {
		if claim := first(m.Roles, source); claim != nil {
			if _, err := readRoles(claim); err == nil {
				return true
			}
		}
	}
	return m.Roles == ""
}

// rolesOf returns the roles of the first source whose claim can be used. Without one
// there are no roles. Names that no policy can name, and names that are too long for a
// header, are left out.
func (m mapping) rolesOf(sources ...claims) []string {
	if m.Roles == "" {
		return nil
	}
	var usable []string
	for _, source := range sources {
		claim := first(m.Roles, source)
		if claim == nil {
			continue
		}
		roles, err := readRoles(claim)
		if err != nil {
			m.logger.Warn("the roles claim of the provider cannot be used, and counts as absent",
				"claim", m.Roles, "error", err)
			continue
		}
		for _, role := range roles {
			switch {
			case role == "":
			case policy.CheckRole(role) != nil || len(role) > maxRole:
				m.logger.Warn("a role of the provider is ignored, because it has a comma, a control character, "+
					"or leading or trailing space, or is too long", "role", clip(role, maxSubject))
			default:
				usable = append(usable, role)
			}
		}
		return usable
	}
	return nil
}

// readRoles reads a claim with roles: one role, an array of roles, or an object whose
// members are named after roles (Zitadel). One entry that is no string makes the whole
// array mean something else.
func readRoles(claim any) ([]string, error) {
	switch claim := claim.(type) {
	case string:
		if claim == "" {
			return nil, errors.New("it is empty")
		}
		return []string{claim}, nil
	case []any:
		return stringsOf("it", claim)
	case map[string]any:
		return slices.Sorted(maps.Keys(claim)), nil
	}
	return nil, fmt.Errorf("it is %s, expected an array of strings", kindOf(claim))
}
