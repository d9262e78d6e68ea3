package login

import (
	"context"
	"time"

	"authgate/gateway/identity/auth"
	"authgate/gateway/identity/provider"
	"authgate/gateway/store/record"
	"authgate/policy"
)

// Vouched returns a user for whom their provider vouches, without a login, and the record that the
// answer depends on. They are who the provider said last at a sign-in here, or else who it says now.
// The error is ErrRejected if the provider is not configured any more, or has another issuer.
func (h *Holders) Vouched(
	ctx context.Context, name, issuer string, now *provider.Profile, expires time.Time,
) (*policy.Identity, record.Stored, error) {
	stored := record.Stored{Key: userPrefix + name + ":" + now.Subject}
	if h.Users == nil {
		return nil, stored, auth.ErrRejected
	}
	if current, ok := h.Users.Issuer(name); !ok || current != issuer {
		return nil, stored, auth.ErrRejected
	}
	raw, err := record.Find(ctx, h.Logins.store, stored.Key)
	if err != nil {
		return nil, stored, err
	}
	profile := now
	if stored.Raw = raw; raw != nil {
		known, err := record.Decode[user](raw)
		if err != nil {
			return nil, stored, err
		}
		if known.Issuer == issuer && known.Profile.Subject == now.Subject {
			profile = &known.Profile
		}
	}
	return profile.Identity(name, policy.Bearer, "", expires), stored, nil
}
