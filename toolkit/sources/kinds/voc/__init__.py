"""Pascal VOC: pictures, an XML file of boxes for each, lists of splits, and masks."""
