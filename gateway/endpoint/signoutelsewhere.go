package endpoint

import (
	"context"

	"authgate/gateway/login"
)

// SignOut signs out at the identity provider of a login that has ended here. It
// returns where a browser must go for that, "" if nowhere.
func (f *Federation) SignOut(ctx context.Context, ended *login.Login) (redirect string, err error) {
	if ended.Delegated == nil {
		return "", nil
	}
	p := f.Provider(ended.Delegated.Provider)
	if p == nil || p.Issuer() != ended.Delegated.Issuer {
		return "", nil
	}
	tokens, err := f.Users.Tokens(ended)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	return p.Logout(ctx, tokens)
}
