package provider

import (
	"encoding/json"
	"maps"
	"strings"
)

// Said has the claims of a provider about a user, each source by itself, as JSON. A source that was
// silent is nil; one that had nothing to say is an empty object. So a renewal removes claims that
// an answer does not have any more, and none for lack of an answer.
type Said struct {
	Userinfo json.RawMessage `json:"userinfo,omitempty"`
	ID       json.RawMessage `json:"id,omitempty"`     // the ID token
	Access   json.RawMessage `json:"access,omitempty"` // the roles claim of the access token
}

// Nothing reports whether no source has said anything.
func (s Said) Nothing() bool { return s.Userinfo == nil && s.ID == nil && s.Access == nil }

// encodeSaid encodes the claims of the sources, without those of the protocol.
func (m mapping) encodeSaid(userinfo, id, access claims) Said {
	encode := func(c claims) json.RawMessage {
		if c == nil {
			return nil
		}
		raw, _ := json.Marshal(m.bounded(c)) // what was decoded can be encoded
		return raw
	}
	return Said{Userinfo: encode(userinfo), ID: encode(id), Access: encode(access)}
}

// saidClaims decodes the claims of a source.
func saidClaims(raw json.RawMessage) claims {
	c, err := decodeClaims(raw)
	if err != nil {
		return nil
	}
	return c
}

// Profile describes a user by the provider's present claims, and by the known ones of the sources
// that are silent now. It also returns the claims to keep.
//
// A silent source keeps only claims that no other source makes now, or has stopped to make: a
// provider that says the same in two places takes it back in one answer.
func (p *Provider) Profile(subject string, now, known Said) (Profile, Said) {
	userinfo, id, access := saidClaims(now.Userinfo), saidClaims(now.ID), saidClaims(now.Access)
	oldUserinfo, oldID := saidClaims(known.Userinfo), saidClaims(known.ID)
	if now.Userinfo == nil {
		userinfo = oldUserinfo.without(id, oldID)
	}
	if now.ID == nil {
		id = oldID.without(saidClaims(now.Userinfo), oldUserinfo)
	}
	if now.Access == nil {
		access = saidClaims(known.Access)
	}
	sources := []claims{userinfo, id, access}
	if now.ID == nil && first(p.mapping.Roles, access) != nil { // newer than the ID token
		sources = []claims{userinfo, access}
	}
	profile := p.mapping.profile(subject, p.mapping.rolesOf(sources...), userinfo, id)
	return profile, p.mapping.encodeSaid(userinfo, id, access)
}

// without returns the claims that another source neither says now, nor has said
// before. If the other source is silent, nothing is taken.
func (c claims) without(now, before claims) claims {
	if c == nil || now == nil {
		return c
	}
	kept := claims{}
	for name, value := range c {
		if rest := remaining(value, now[name], before[name]); rest != nil {
			kept[name] = rest
		}
	}
	// An address belongs together with whether it is verified. One that is not stays, so
	// that it counts against the same one elsewhere.
	if c.unverified() {
		for _, name := range addressClaims {
			if value, ok := c[name]; ok {
				kept[name] = value
			}
		}
	} else if _, ok := kept["email"]; !ok {
		delete(kept, "email_verified")
	}
	return kept
}

var addressClaims = []string{"email", "email_verified"}

// remaining returns the rest of one claim, member by member of an object, nil if nothing is left.
func remaining(value, now, before any) any {
	object, ok := value.(map[string]any)
	_, nowObject := now.(map[string]any)
	_, beforeObject := before.(map[string]any)
	if !ok || !nowObject && (now != nil || !beforeObject) {
		if said(now) || said(before) {
			return nil
		}
		return value
	}
	nowMembers, _ := now.(map[string]any)
	beforeMembers, _ := before.(map[string]any)
	kept := maps.Clone(object)
	for name, member := range object {
		if rest := remaining(member, nowMembers[name], beforeMembers[name]); rest != nil {
			kept[name] = rest
		} else {
			delete(kept, name)
		}
	}
	return kept
}

// said reports whether a claim says anything.
func said(value any) bool {
	text, isText := value.(string)
	return value != nil && (!isText || strings.TrimSpace(text) != "")
}
