# SPDX-License-Identifier: Apache-2.0
# Folders of images: a valid one, then each kind of broken one.
byte() { printf "\\$(printf %03o "$1")"; }
number() { byte 0; byte 0; byte $(($1 / 256)); byte $(($1 % 256)); } # big-endian, below 65536
images() { byte 0; byte 0; byte 8; byte 3; number "$1"; number 2; number 2; head -c $(($1 * 4)) /dev/zero; }
labels() { byte 0; byte 0; byte 8; byte 1; number $#; for label; do byte "$label"; done; }
good() {
    mkdir -p set
    images 4 >set/train-images-idx3-ubyte
    labels 0 1 2 9 >set/train-labels-idx1-ubyte
    images 2 >set/t10k-images-idx3-ubyte
    labels 3 9 >set/t10k-labels-idx1-ubyte
}

good
summary small --data set --batch 3 --epochs 2
holds 'small_code == 0 && small_data == "set" && small_steps == 4 && small_epochs == 2'
show train --data set

show train --data no/such/folder
rm set/t10k-labels-idx1-ubyte
show train --data set --batch 4
good
printf 'not an IDX file' >set/train-images-idx3-ubyte
show train --data set --batch 4
good
head -c 20 set/train-images-idx3-ubyte >part && mv part set/train-images-idx3-ubyte
show train --data set --batch 4
good
gzip set/train-images-idx3-ubyte
head -c 20 set/train-images-idx3-ubyte.gz >part && mv part set/train-images-idx3-ubyte.gz
show train --data set --batch 4
rm set/train-images-idx3-ubyte.gz
good
labels 0 1 2 10 >set/train-labels-idx1-ubyte
show train --data set --batch 4
labels 0 1 2 >set/train-labels-idx1-ubyte
show train --data set --batch 4
good
{ byte 0; byte 0; byte 8; byte 3; number 2; number 1; number 2; head -c 4 /dev/zero; } >set/t10k-images-idx3-ubyte
show train --data set --batch 4

# Fashion-MNIST is not installed: an error with --data fashion-mnist, a message without --data.
export GRADSCALER_DATA=nowhere
show train --data fashion-mnist
summary fallback --steps 1
holds 'fallback_code == 0 && fallback_data == "synthetic"'
