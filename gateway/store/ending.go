package store

import "context"

type endingKey struct{}

// Ending marks writes with ctx as ones that end a login or revoke a credential.
// A store may reserve space for these writes and for those that remove an
// entry: users must be able to sign out while the disk is full.
func Ending(ctx context.Context) context.Context {
	return context.WithValue(ctx, endingKey{}, true)
}

// IsEnding reports whether ctx was marked by Ending.
func IsEnding(ctx context.Context) bool {
	ending, _ := ctx.Value(endingKey{}).(bool)
	return ending
}
