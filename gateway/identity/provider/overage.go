package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// Microsoft Entra ID leaves the groups of users who have many out of its tokens. It names their place, as a
// distributed claim (OpenID Connect Core 1.0, section 5.6.2). The request to it is no GET: it calls the method
// getMemberObjects of Microsoft Graph, with the user's own token.

// memberObjects is the last segment of the path of such a place.
const memberObjects = "/getMemberObjects"

// retiredGraph is the host that tokens still name, and userGroups the place that answers for it now.
const (
	retiredGraph = "graph.windows.net"
	userGroups   = "https://graph.microsoft.com/v1.0/me" + memberObjects
)

// overage returns the place of a claim that an ID token leaves out because it is too long, empty if there is none.
func (c claims) overage(name string) string {
	names, _ := c["_claim_names"].(map[string]any)
	sources, _ := c["_claim_sources"].(map[string]any)
	key, _ := names[name].(string)
	described, _ := sources[key].(map[string]any)
	place, _ := described["endpoint"].(string)
	parsed, err := url.Parse(place)
	switch {
	case err != nil || !strings.HasSuffix(parsed.Path, memberObjects) || c[name] != nil:
		return ""
	case parsed.Hostname() == retiredGraph:
		return userGroups
	}
	return place
}

// fillIn adds the roles claim of an ID token that is too long for it.
func (p *Provider) fillIn(ctx context.Context, id claims, access string) {
	if place := id.overage(p.mapping.Roles); place != "" {
		id[p.mapping.Roles] = p.groups(ctx, place, access)
	}
}

// groups is members, and none if they cannot be had.
func (p *Provider) groups(ctx context.Context, place, access string) []any {
	members, err := p.members(ctx, place, access)
	if err != nil {
		p.logger.Warn("the groups of a user with many cannot be had, so the user has none of their roles",
			"claim", clip(p.mapping.Roles, maxSubject), "error", err)
		return []any{}
	}
	return members
}

// members returns the identifiers of the groups of the user to whom an access token belongs.
func (p *Provider) members(ctx context.Context, place, access string) ([]any, error) {
	if err := checkEndpoint("the place of the groups", place); err != nil {
		return nil, p.fault("groups", err)
	}
	r, err := http.NewRequest(http.MethodPost, place, strings.NewReader(`{"securityEnabledOnly":false}`))
	if err != nil {
		return nil, p.fault("groups", err)
	}
	r.Header.Set("Authorization", "Bearer "+access)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	got, err := p.client.send(ctx, "groups", r)
	if err != nil {
		return nil, err
	}
	var said struct {
		Value []string `json:"value"`
		Next  string   `json:"@odata.nextLink"`
	}
	switch err := json.Unmarshal(got.body, &said); {
	case err != nil:
		return nil, p.fault("groups", fmt.Errorf("the answer: %w", err))
	case said.Value == nil || said.Next != "":
		return nil, p.fault("groups", errors.New("the answer has no list of groups, or not all of them"))
	}
	members := make([]any, len(said.Value))
	for i, one := range said.Value {
		members[i] = one
	}
	return members, nil
}
