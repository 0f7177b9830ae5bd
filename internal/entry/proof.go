package entry

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"time"

	"seckill"
)

// ProofBytesMax bounds a proof.
const ProofBytesMax = 1024

// algorithm is the one of ALTCHA's that the buyer page speaks.
const algorithm = "SHA-256"

// Challenge is a proof of work to be done, in the form of ALTCHA, version 1: find the number, from 0 to
// MaxNumber, that has the hash Challenge when its decimal is put behind Salt.
type Challenge struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"` // Hex.
	MaxNumber int    `json:"maxnumber"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"` // Hex.
}

// AppendJSON appends the challenge as JSON.
func (c *Challenge) AppendJSON(b []byte) []byte {
	// None of the values needs escapes: they are made here.
	b = append(b, `{"algorithm":"`+c.Algorithm+`","challenge":"`+c.Challenge+`","maxnumber":`...)
	b = strconv.AppendInt(b, int64(c.MaxNumber), 10)
	return append(b, `,"salt":"`+c.Salt+`","signature":"`+c.Signature+`"}`...)
}

// solution is what a proof is, in base64.
type solution struct {
	Algorithm string `json:"algorithm"`
	Challenge string `json:"challenge"`
	Number    int64  `json:"number"`
	Salt      string `json:"salt"`
	Signature string `json:"signature"`
}

// terms are what a salt says.
type terms struct {
	expires time.Time
	key     uint32
	run     seckill.RunID
	buyer   string // The tag of the buyer, "" if he was not known.
	nonce   string
}

// salt writes the terms. The "&" at its end keeps the number apart: without one, the first
// digits of the number could be read as the last of a value, and what was made to expire would not.
func (t terms) salt() string {
	b := append(make([]byte, 0, 160), t.nonce...)
	b = append(b, "?expires="...)
	b = strconv.AppendInt(b, t.expires.Unix(), 10)
	b = append(b, "&key="...)
	b = strconv.AppendUint(b, uint64(t.key), 16)
	b = append(b, "&activity="...)
	b = strconv.AppendInt(b, t.run.Activity, 10)
	b = append(b, "&run="...)
	b = strconv.AppendInt(b, int64(t.run.Run), 10)
	b = append(b, "&buyer="...)
	b = append(b, t.buyer...)
	return string(append(b, '&'))
}

// readTerms reads a salt. Only one that would be written the same way is one.
func readTerms(salt string) (t terms, ok bool) {
	var values [5]string
	rest := salt
	t.nonce, rest, _ = strings.Cut(rest, "?")
	for i, name := range [...]string{"expires=", "key=", "activity=", "run=", "buyer="} {
		values[i], rest, _ = strings.Cut(strings.TrimPrefix(rest, name), "&")
	}
	expires, err := strconv.ParseInt(values[0], 10, 64)
	key, err2 := strconv.ParseUint(values[1], 16, 32)
	activity, err3 := strconv.ParseInt(values[2], 10, 64)
	run, err4 := strconv.ParseInt(values[3], 10, 32)
	if err != nil || err2 != nil || err3 != nil || err4 != nil {
		return t, false
	}
	t.expires, t.key, t.buyer = time.Unix(expires, 0), uint32(key), values[4]
	t.run = seckill.RunID{Activity: activity, Run: int(run)}
	return t, t.salt() == salt
}

// proofTag stands for a buyer in a salt.
func proofTag(nonce, buyer string) string {
	if buyer == "" {
		return ""
	}
	tag := buyerTag([]byte(nonce)[:NonceBytes], buyer)
	return base64.RawURLEncoding.EncodeToString(tag[:])
}

// challenge makes a challenge. What is signed is all that it says, not only the hash.
func (r *Ring) challenge(run seckill.RunID, buyer string, difficulty int, now, expires time.Time) Challenge {
	key := r.signing(now)
	var random [NonceBytes]byte
	rand.Read(random[:])
	t := terms{expires: expires, key: key.tag, run: run, nonce: hex.EncodeToString(random[:])}
	t.buyer = proofTag(t.nonce, buyer)
	number, err := rand.Int(rand.Reader, big.NewInt(int64(difficulty)+1))
	if err != nil {
		panic(err) // The system's randomness does not fail.
	}
	c := Challenge{Algorithm: algorithm, MaxNumber: difficulty, Salt: t.salt()}
	hash := work(c.Salt, number.Int64())
	c.Challenge = hex.EncodeToString(hash[:])
	sum := key.proof.sum(hash[:], c.Salt)
	c.Signature = hex.EncodeToString(sum[:])
	return c
}

func work(salt string, number int64) [sha256.Size]byte {
	room := append(make([]byte, 0, 256), salt...)
	return sha256.Sum256(strconv.AppendInt(room, number, 10))
}

// saltBytesMax is more than any salt that is made here has.
const saltBytesMax = 256

// proved checks a proof: that its challenge was made here, for this run and buyer, that its time
// is not over, and that the work was done. The id that it returns is the same however the proof
// is written.
func (r *Ring) proved(proof string, run seckill.RunID, buyer string, now time.Time, leeway time.Duration) (id [sha256.Size]byte, v Verdict) {
	if proof == "" {
		return id, Missing
	}
	s, hash, signature, ok := readProof(proof)
	t, ok2 := readTerms(s.Salt)
	if !ok || !ok2 || len(t.nonce) != 2*NonceBytes {
		return id, Malformed
	}
	key := r.find(t.key)
	if key == nil {
		return id, UnknownKey
	}
	id = key.proof.sum(hash[:], s.Salt)
	switch {
	case subtle.ConstantTimeCompare(id[:], signature[:]) == 0:
		return id, BadSignature
	case now.After(t.expires.Add(leeway)):
		return id, Expired
	case t.run.Activity != run.Activity:
		return id, OtherActivity
	case t.run.Run != run.Run:
		return id, OtherRun
	case t.buyer != "" && t.buyer != proofTag(t.nonce, buyer):
		return id, OtherBuyer
	case work(s.Salt, s.Number) != hash:
		return id, WrongNumber
	}
	return id, Good
}

func readProof(proof string) (s solution, hash, signature [sha256.Size]byte, ok bool) {
	if len(proof) > ProofBytesMax {
		return s, hash, signature, false
	}
	raw, err := base64.StdEncoding.DecodeString(proof)
	if err != nil || json.Unmarshal(raw, &s) != nil || s.Algorithm != algorithm || len(s.Salt) > saltBytesMax || s.Number < 0 {
		return s, hash, signature, false
	}
	return s, hash, signature, unhex(hash[:], s.Challenge) && unhex(signature[:], s.Signature)
}

func unhex(dst []byte, s string) bool {
	if hex.DecodedLen(len(s)) != len(dst) {
		return false
	}
	_, err := hex.Decode(dst, []byte(s))
	return err == nil
}

// nonceOf makes the nonce of the token that a proof is worth, the same on all nodes.
func nonceOf(id [sha256.Size]byte) (n Nonce) {
	sum := sha256.Sum256(append([]byte("seckill nonce of a proof\x00"), id[:]...))
	copy(n[:], sum[:])
	return n
}

// randomNonce is that of a token which cost no proof.
func randomNonce() (n Nonce) {
	rand.Read(n[:])
	return n
}

// ownerOf stands for an idempotency key; 0 for none.
func ownerOf(key string) uint64 {
	if key == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(sum[:]) | 1
}
