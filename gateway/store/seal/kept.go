package seal

import (
	"crypto/rand"
	"fmt"
	"path/filepath"

	"authgate/gateway/store/keyfile"
)

// storeKeyFile is where the secret of a store is kept that none is configured for.
const storeKeyFile = "store.key"

// ForStore returns the Box of a store. Its secret is the configured one, store.encryption_key,
// or if that is empty one that is kept in dataDir.
func ForStore(configured, dataDir string) (*Box, error) {
	secret := []byte(configured)
	if len(secret) == 0 {
		var err error
		if secret, err = Keep(filepath.Join(dataDir, storeKeyFile)); err != nil {
			return nil, fmt.Errorf("store.encryption_key: %w", err)
		}
	}
	box, err := New(secret)
	if err != nil {
		return nil, fmt.Errorf("store.encryption_key: %w", err)
	}
	return box, nil
}

// Keep returns the secret in a file. If there is no file, Keep makes it with a random secret.
func Keep(path string) ([]byte, error) {
	return keyfile.Keep(path, func() ([]byte, error) {
		secret := make([]byte, MinSecret)
		rand.Read(secret) // never fails: crypto/rand
		return secret, nil
	})
}
