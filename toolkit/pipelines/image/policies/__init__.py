"""Published augmentation policies: each is one step, and runs in the native call as branches of steps on pixels."""
