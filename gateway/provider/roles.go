package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"

	"authgate/policy"
)

// roles looks for the roles of a user in userinfo, the ID token, the access token,
// and last in the stored ID token of the login, which may be old.
func (p *Provider) roles(ctx context.Context, m *metadata, access string, userinfo claims, who person) ([]string, error) {
	sources := []claims{userinfo, who.fresh}
	if p.mapping.Roles != "" && first(p.mapping.Roles, sources...) == nil {
		sources = append(sources, p.accessClaims(ctx, m, access, who.subject), who.kept)
	}
	return p.mapping.rolesOf(sources...)
}

// accessClaims returns the claims of an access token that is a JWT of the provider
// about the same user. An access token need not be readable for its client, so
// accessClaims returns nil, and no error, if it is not valid.
func (p *Provider) accessClaims(ctx context.Context, m *metadata, access, subject string) claims {
	if strings.Count(access, ".") != 2 || !p.openID() {
		return nil
	}
	_, c, err := p.verify(ctx, m, access, accessTokenTypes, &oidc.Config{
		SkipClientIDCheck: true, SupportedSigningAlgs: m.algorithms(),
	})
	if err == nil && c["sub"] != subject {
		err = errors.New("it is about another person")
	}
	if err != nil {
		p.logger.Debug("no roles are read from the access token", "error", err)
		return nil
	}
	return c
}

// rolesOf reads the roles claim of the first source that has it. Without the claim
// there are no roles. A claim that is not an array of strings is an error, because
// the gateway would have to guess its meaning.
func (m mapping) rolesOf(sources ...claims) ([]string, error) {
	if m.Roles == "" {
		return nil, nil
	}
	claim := first(m.Roles, sources...)
	if claim == nil {
		return nil, nil
	}
	const remedy = "; let the provider send an array of strings, or name another claim in roles_claim"
	array, ok := claim.([]any)
	if !ok {
		return nil, fmt.Errorf("%s is %s, expected an array of strings%s", m.Roles, kindOf(claim), remedy)
	}
	roles, err := stringsOf(m.Roles, array)
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, remedy)
	}
	var usable []string
	for _, role := range roles {
		switch {
		case role == "":
		case policy.CheckRole(role) != nil:
			m.logger.Warn("a role of the provider is ignored, because it has a comma, a control character, or leading or trailing space",
				"role", clip(role, maxSubject))
		default:
			usable = append(usable, role)
		}
	}
	return usable, nil
}
