package store

import "context"

type endingKey struct{}

// Ending marks the writes made with ctx as ones that end a login or revoke a
// credential. A store may set space aside that only these writes, and those
// that remove an entry, may use: a full disk must not keep people from signing
// out.
func Ending(ctx context.Context) context.Context {
	return context.WithValue(ctx, endingKey{}, true)
}

// IsEnding reports whether Ending has marked ctx.
func IsEnding(ctx context.Context) bool {
	ending, _ := ctx.Value(endingKey{}).(bool)
	return ending
}
