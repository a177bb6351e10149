"""KataGo: rules, board history, network inputs, training targets and .npz files, bit-exact with KataGo v1.17.2."""
